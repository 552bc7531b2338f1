//! The recipe for DynamoDB in docs/guide/recipes.md, against moto, word for word.

use support::objects;

/// Its expressions are read from the page.
const SCRIPT: &str = r###"
import re, sys
import boto3
from botocore.config import Config

page, url = sys.argv[1:]
recipe = open(page).read().split("## DynamoDB")[1].split("## ")[0]
update = re.search(r"--update-expression '([^']*)'", recipe)[1]
condition = re.search(r"--condition-expression '([^']*)'", recipe)[1]
db = boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a",
                  aws_secret_access_key="b", config=Config(proxies={}))
db.create_table(TableName="files", KeySchema=[{"AttributeName": "path", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "path", "AttributeType": "S"}], BillingMode="PAY_PER_REQUEST")

def write(token, body):
    values = {":body": {"S": body}, ":token": {"N": str(token)}}
    try:
        db.update_item(TableName="files", Key={"path": {"S": "a"}}, UpdateExpression=update,
                       ConditionExpression=condition, ExpressionAttributeValues=values)
        return "applied"
    except db.exceptions.ConditionalCheckFailedException:
        return "stale"

print(write(9, "first"), write(34, "second"), write(33, "late"), write(34, "third"), write(100, "fourth"),
      write(99, "late"), db.get_item(TableName="files", Key={"path": {"S": "a"}})["Item"]["body"]["S"])
"###;

#[test]
fn dynamodb() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/recipes.md");
    let output = objects::python().args(["-c", SCRIPT, page, &objects::moto()]).output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "applied applied stale applied applied stale fourth", "{error}");
}
