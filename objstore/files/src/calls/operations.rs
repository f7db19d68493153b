//! The declaration of operations: one entry makes the variant, its class and the method of [`crate::Files`].
//!
//! A macro, because otherwise each of some forty operations would be written three times, and its class could be
//! forgotten.

/// Declares a group of operations. An entry is `[Class] method: Variant { field: Type, … } -> Value;`, with `+ data`
/// before the arrow if bytes to write go with it.
macro_rules! operations {
    (
        $(#[$family_doc:meta])*
        $family:ident $(<$lifetime:lifetime>)? {
            $(
                $(#[$doc:meta])*
                [$class:ident] $method:ident: $op:ident {
                    $( $(#[$field_doc:meta])* $field:ident: $type:ty, )*
                } $(+ $data:ident)? -> $value:ty;
            )*
        }
    ) => {
        $(#[$family_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $family $(<$lifetime>)? {
            $(
                $(#[$doc])*
                #[doc = concat!("\n\nOf class [`Class::", stringify!($class), "`](crate::Class::", stringify!($class), ").")]
                $op { $( $(#[$field_doc])* $field: $type, )* },
            )*
        }

        impl $(<$lifetime>)? $family $(<$lifetime>)? {
            /// All operations of the group, each with its class.
            pub const TABLE: &'static [(&'static str, $crate::Class)] =
                &[$((stringify!($method), $crate::Class::$class)),*];

            /// What a repetition does.
            pub fn class(&self) -> $crate::Class {
                match self { $( Self::$op { .. } => $crate::Class::$class, )* }
            }

            /// The name of the operation.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$op { .. } => stringify!($method), )* }
            }
        }

        impl $(<$lifetime>)? $crate::Files<'_> {
            $(
                $(#[$doc])*
                pub fn $method(
                    &self,
                    $( $field: impl Into<$type>, )*
                    $( $data: &[u8], )?
                ) -> objstore_base::error::Result<$value> {
                    let op = $family::$op { $( $field: $field.into() ),* };
                    operations!(@call self, op $(, $data)?)
                }
            )*
        }
    };
    (@call $files:ident, $op:ident) => { $files.call($op.into(), &[]) };
    (@call $files:ident, $op:ident, $data:ident) => { $files.call($op.into(), $data) };
}

pub(crate) use operations;
