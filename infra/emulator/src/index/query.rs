//! The queries that an index serves: parsed from their text, with the values of their parameters.
//!
//! ```text
//!   SELECT * | VALUE c.a | VALUE COUNT(1) | COUNT(1) AS n | c.a, c.b.c AS d, IS_DEFINED(c.e) AS f
//!   FROM c
//!   WHERE   AND, OR, NOT; = != < <= > >= IN BETWEEN of a property and constants; IS_DEFINED, ARRAY_CONTAINS, STARTSWITH
//!   ORDER BY c.a, c.b DESC
//! ```
//!
//! [`parse`] returns `None` for everything else: Microsoft's emulator, which has checked every text before, answers that.

mod parser;

use serde_json::Value;

pub(super) use parser::parse;

/// The names that lead to a property.
pub(super) type Path = Vec<String>;

/// A query with its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    pub(super) select: Select,
    pub(super) filter: Option<Filter>,
    pub(super) order: Vec<Order>,
}

/// What it returns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Select {
    All,
    Value(Path),
    List(Vec<(String, Column)>),
    /// The number of the documents; with a name, as an object.
    Count(Option<String>),
}

/// One value of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    Property(Path),
    IsDefined(Path),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) path: Path,
    pub(super) descending: bool,
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Compare(Operand, Comparison, Operand),
    In {
        operand: Operand,
        values: Vec<Operand>,
        negated: bool,
    },
    Between {
        operand: Operand,
        low: Operand,
        high: Operand,
        negated: bool,
    },
    IsDefined(Operand),
    ArrayContains(Operand, Operand),
    StartsWith(Operand, Operand),
    /// A property that is true.
    Is(Operand),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Property(Path),
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Query {
    /// The conditions that all must hold.
    pub(super) fn conditions(&self) -> &[Filter] {
        match &self.filter {
            Some(Filter::And(all)) => all,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        }
    }
}
