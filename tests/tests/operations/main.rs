//! What operators do with instances: each verb in each state, crashed at every write, in races with live turns, on trees.

mod pause;
