//! The deployment, as far as it can be proved without an account: the templates under `infra/` against the tools that
//! judge them, against moto's CloudFormation, and against the code that they deploy.
//!
//! | module | what it shows |
//! |---|---|
//! | `lint` | cfn-lint, `sam validate`, checkov; each suppressed finding has its reason |
//! | `parameters` | mistakes are refused before CloudFormation makes anything |
//! | `timing`, `agreement` | the times of functions, queues, locks and schedule agree, for every choice of parameters |
//! | `stack` | what CloudFormation makes of the template, and that deleting it leaves nothing |
//! | `permissions`, `actions`, `variables`, `alarms` | roles, environment and metrics are those of the code |
//! | `flow` | an order is fulfilled by the binaries with the variables, queues and secret of the stack |
//! | `provision`, `cosmos` | the container is created or verified, never altered; templates and code do not drift |
//! | `cost` | the guide's estimate rests on what is counted |
//! | `archives`, `command` | `cargo lambda build` makes what is deployed; `duroxide-lambda deploy` puts it all together |
//! | `safeguards` | a stack that runs is not moved to another container by mistake, and a rollback skips no deployment |
//! | `projects` | projects of users in one account, with tags and overlay, deployed, upgraded, rolled back and destroyed |
//! | `company` | a VPC, keys of one's own, a permissions boundary, a role that only reads |
//! | `supply_chain` | where dependencies may come from |
//! | `rotation` | the commands that rotate the key regenerate none that is in use |
//!
//! `template` reads the SAM template through its own transform, `deploy` holds the stack that moto makes of it; both run
//! the Python beside this file.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod actions;
mod agreement;
mod alarms;
mod archives;
mod command;
mod company;
mod cosmos;
mod cost;
mod deploy;
mod flow;
mod lint;
mod parameters;
mod permissions;
mod projects;
mod provision;
mod rotation;
mod safeguards;
mod stack;
mod supply_chain;
mod template;
mod timing;
mod variables;
