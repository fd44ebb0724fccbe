//! The filter of a query: its `WHERE` clause as far as an index can serve it.
//!
//! ```text
//!   c.queue = 'turn'                One       AND, OR, NOT keep their structure
//!   c.queue IN ('a', @b)            Many      everything else (arithmetic, other functions, subqueries, joined aliases)
//!   ARRAY_CONTAINS(@list, c.pk)     Many      is Opaque: no index serves it
//!   c.dueAt <= @now                 Range
//!   IS_DEFINED(c.name)              Defined
//! ```

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
    /// SDKs write it where a query without a continuation has no condition.
    True,
    Opaque,
}

/// A condition and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) filter: Filter,
    pub(super) text: String,
}

/// What a property is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// The names that lead to the property.
    pub(super) path: Vec<String>,
    pub(super) kind: TestKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestKind {
    /// Equal to one value.
    One,
    /// Equal to one of several values.
    Many,
    /// In a range of values.
    Range,
    /// Present, or of some type.
    Defined,
}
