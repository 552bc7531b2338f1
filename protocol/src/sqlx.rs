//! A [`Token`] is a column of 64 bits (`BIGINT`), a [`Resource`] one of text.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::{Resource, Token};

/// Gives a type the column type of another one, and the way to write it.
macro_rules! column {
    ($name:ty as $column:ty, $value:ident => $written:expr) => {
        impl<DB: Database> Type<DB> for $name
        where
            $column: Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <$column>::type_info()
            }

            fn compatible(other: &DB::TypeInfo) -> bool {
                <$column>::compatible(other)
            }
        }

        impl<'q, DB: Database> Encode<'q, DB> for $name
        where
            $column: Encode<'q, DB>,
        {
            fn encode_by_ref(&self, to: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
                let $value = self;
                $written.encode(to)
            }
        }
    };
}

column!(Token as i64, token => i64::from(*token));
column!(Resource as String, resource => resource.as_str().to_owned());

impl<'r, DB: Database> Decode<'r, DB> for Token
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Token, BoxDynError> {
        let number = i64::decode(value)?;
        Token::try_from(number).map_err(|error| format!("{number}: {error}").into())
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Resource
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Resource, BoxDynError> {
        Ok(Resource::new(<&str>::decode(value)?)?)
    }
}
