//! GetCallerIdentity: whom the keys of a request belong to.

use super::answer::Answer;
use super::fault::Fault;
use crate::authorization::arn;
use crate::service::Call;

/// Answers the caller (AWS STS API, GetCallerIdentity). No permission is needed.
pub(super) fn answer(call: &Call) -> Result<Answer, Fault> {
    let caller = call.request.caller().ok_or_else(Fault::unsigned)?;
    let account = &caller.account;
    let (arn, id) = match &caller.session {
        Some(session) => (session.arn.clone(), session.user_id.clone()),
        None => (arn(account), account.name.clone()),
    };
    Ok(Answer::new("GetCallerIdentity").with("Arn", &arn).with("UserId", &id).with("Account", &account.name))
}
