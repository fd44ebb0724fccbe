//! What the worlds of this target hold.
//!
//! | module | role |
//! |---|---|
//! | `workflows` | the sample's workflows, and some that only these tests have |
//! | `documents` | instances as documents: many, long, and of the past |
//! | `hostile` | texts that would be code if a page took them for markup |
//! | `orders` | sample orders of every outcome |
//! | `trouble` | instances that cannot go on |

pub mod documents;
pub mod hostile;
pub mod orders;
pub mod trouble;
pub mod workflows;
