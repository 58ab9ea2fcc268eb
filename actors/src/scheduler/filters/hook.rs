//! The filter of the scheduler hook: hosts that the operator's own program refuses.

use super::filter::{Filter, PLAIN};
use crate::scheduler::hook_answers::HookAnswers;

pub(super) const SCHEDULER_HOOK: Filter = Filter {
    name: "SchedulerHookFilter",
    applies: |context| context.request.hook.is_some(),
    passes: |host| host.context.request.hook.as_ref().is_none_or(|answers| answers.refusal(host.row.id).is_none()),
    says: |host| {
        let answers = host.context.request.hook.as_ref();
        answers.and_then(|answers| answers.refusal(host.row.id)).unwrap_or_default().to_owned()
    },
    lacks: |context| match context.request.hook.as_deref() {
        Some(HookAnswers::Missing) => "the scheduler hook gave no valid answer".to_owned(),
        _ => "the scheduler hook refuses the hosts that are suitable".to_owned(),
    },
    ..PLAIN
};
