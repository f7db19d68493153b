//! AssumeRoleWithWebIdentity: a token of OpenID Connect for a session of a role that trusts it.

use objstore::clock::Timestamp;
use objstore::store::Role;
use s3_oidc::VerifiedToken;

use super::answer::Answer;
use super::fault::Fault;
use super::form::Form;
use super::{role, seconds};
use crate::service::Call;

const ACTION: &str = "AssumeRoleWithWebIdentity";

/// Begins a session (AWS STS API, AssumeRoleWithWebIdentity).
pub(super) async fn assume(call: &Call, form: &Form, now: Timestamp) -> Result<Answer, Fault> {
    form.allow(&["RoleArn", "RoleSessionName", "WebIdentityToken", "DurationSeconds", "Policy"])?;
    let arn = form.require("RoleArn")?;
    role::RoleArn::parse(arn)?;
    call.request.set_subject(format!("role={arn:?}"));
    let session = role::session(form)?;
    let token = form.require("WebIdentityToken")?;
    let verified = call.issuers.verify(token, seconds(now)).await;
    let verified = verified.map_err(|refusal| Fault::of_token(&refusal))?;
    // The subject is the issuer's text, so it is quoted.
    let by = format!("issuer={} subject={:?}", verified.issuer, verified.subject);
    let caller = verified.clone();
    let role = role::taken(call, form, (ACTION, &by), move |role| trusts(role, &caller)).await?;
    let answer = role::begin(call, &role, session, (ACTION, &by))?;
    let answer = answer.with("SubjectFromWebIdentityToken", &verified.subject);
    Ok(answer.with("Audience", &verified.audience).with("Provider", &verified.issuer))
}

fn trusts(role: &Role, token: &VerifiedToken) -> bool {
    let VerifiedToken { issuer, subject, audience } = token;
    role.identities.iter().any(|trusted| trusted.includes(issuer, subject, audience))
}
