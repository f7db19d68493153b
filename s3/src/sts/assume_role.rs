//! AssumeRole: the keys of an account for a session of a role that trusts the account.

use super::answer::Answer;
use super::fault::Fault;
use super::form::Form;
use super::role;
use crate::authorization::arn;
use crate::service::Call;

const ACTION: &str = "AssumeRole";

/// Begins a session (AWS STS API, AssumeRole). `ExternalId` means nothing where no role asks for one, as on AWS.
pub(super) async fn assume(call: &Call, form: &Form) -> Result<Answer, Fault> {
    form.allow(&["RoleArn", "RoleSessionName", "DurationSeconds", "Policy", "ExternalId"])?;
    let session = role::session(form)?;
    let caller = call.request.caller().ok_or_else(Fault::unsigned)?;
    if caller.account.root {
        return Err(Fault::denied("Roles may not be assumed by root accounts."));
    }
    if caller.session.is_some() {
        return Err(Fault::denied("A session of a role cannot take another role; use the keys of an account."));
    }
    let name = caller.account.name.clone();
    let by = format!("by={}", arn(&caller.account));
    let role = role::taken(call, form, (ACTION, &by), move |role| role.accounts.contains(&name)).await?;
    role::begin(call, &role, session, (ACTION, &by))
}
