//! The stored names of queues, document types and statuses, as they stand in the text of a query.

macro_rules! names {
    ($($name:ident = $text:literal is $of:expr;)*) => {
        $(pub(crate) const $name: &str = $text;)*

        #[cfg(test)]
        mod tests {
            use crate::model::{Kind, Lane, Queue, Status};

            #[test]
            fn queries_use_the_stored_names() {
                $(assert_eq!(serde_json::to_string(&$of).unwrap().replace(['[', ']'], "").replace('"', "'"), $text);)*
            }
        }
    };
}

names! {
    TURN = "'turn'" is Queue::Turn;
    TURN_LANE = "'turn'" is Lane::Turn;
    WORK = "'work'" is Queue::Work;
    REPAIR = "'repair'" is Queue::Repair;
    DEAD = "'dead'" is Queue::Dead;
    INSTANCE = "'instance'" is Kind::Instance;
    EXECUTION = "'execution'" is Kind::Execution;
    HISTORY = "'history'" is Kind::History;
    MESSAGE = "'message'" is Kind::Message;
    TEXT = "'text'" is Kind::Text;
    RECEIPT = "'receipt'" is Kind::Receipt;
    WORK_ITEM = "'work'" is Kind::Work;
    DEAD_LETTER = "'dead-letter'" is Kind::DeadLetter;
    INTENT = "'intent'" is Kind::Intent;
    KV = "'kv'" is Kind::Kv;
    KEPT_RESULT = "'kept-result'" is Kind::KeptResult;
    SESSION = "'session'" is Kind::Session;
    DELETION = "'deletion'" is Kind::Deletion;
    MAINTENANCE = "'maintenance'" is Kind::Maintenance;
    BATCH_JOB = "'batch-job'" is Kind::BatchJob;
    BATCH_FAILURES = "'batch-failures'" is Kind::BatchFailures;
    PENDING = "'Pending'" is Status::Pending;
    TERMINAL = "'Completed','Failed','ContinuedAsNew'" is [Status::Completed, Status::Failed, Status::ContinuedAsNew];
    ENDED = "'Completed','Failed'" is [Status::Completed, Status::Failed];
}
