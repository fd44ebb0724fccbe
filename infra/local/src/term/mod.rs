//! Tables and text for terminals: no workflow data reaches a terminal unescaped.

pub mod table;
pub mod text;
