//! A [`Token`] is a column of 64 bits (`BIGINT`), a [`Resource`] one of text.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::resource::Resource;
use crate::token::Token;

impl<DB: Database> Type<DB> for Token
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        i64::type_info()
    }

    fn compatible(other: &DB::TypeInfo) -> bool {
        i64::compatible(other)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Token
where
    i64: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        i64::from(*self).encode_by_ref(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Token
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Token, BoxDynError> {
        let number = i64::decode(value)?;
        Token::try_from(number).map_err(|error| format!("{number}: {error}").into())
    }
}

impl<DB: Database> Type<DB> for Resource
where
    String: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        String::type_info()
    }

    fn compatible(other: &DB::TypeInfo) -> bool {
        String::compatible(other)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Resource
where
    String: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.as_str().to_owned().encode(buffer)
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
