//! What a request must say to create a thing. A change is the same body with every field optional, so that the OpenAPI document has a schema for each.

use std::{borrow::Cow, marker::PhantomData};

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

/// A body that creates a thing, or changes one.
pub trait Creates: ToSchema {
    /// The fields that only a change may leave out: a creation without one of them is refused.
    const REQUIRED: &'static [&'static str];
}

/// Describes in the document a body that creates. Nothing is ever read into it: both bodies are read as `T`.
pub struct New<T>(PhantomData<T>);

impl<T: Creates> PartialSchema for New<T> {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut body)) = T::schema() else { unreachable!("a body is an object") };
        body.required.extend(T::REQUIRED.iter().map(|field| (*field).to_owned()));
        body.into()
    }
}

impl<T: Creates> ToSchema for New<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("New{}", T::name().trim_end_matches("In")))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}
