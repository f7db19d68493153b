//! Sessions of roles: credentials that expire, of which the store keeps nothing.
//!
//! - A session token is the session itself, sealed under a key that is derived from the master key for the session's
//!   access key id. A holder can neither read nor change it, nor use it with another access key.
//! - It names role and account by numbers that are never reused. Each request looks both up, so a deleted role, account
//!   or grant counts from the next request on.
//! - A rotation of the master key ends all sessions.
//!
//! A crash leaves nothing: beginning a session writes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost::Message;

use super::key::{ID_LETTERS, SECRET_LETTERS, letters};
use super::types::{NewRoleSession, Role, RoleCredentials, RoleSession, Secret, SessionFault};
use super::{Store, account, role};
use crate::clock::Timestamp;
use crate::error::Result;

/// The first letters of the access key ids of sessions, as on AWS.
pub const SESSION_KEY_PREFIX: &str = "ASIA";
/// How long a session may last, in seconds (AWS STS API, AssumeRole).
pub const ROLE_SESSION_SECONDS: std::ops::RangeInclusive<u32> = 900..=43_200;
/// The first byte of a token: the version of its format.
const VERSION: u8 = 1;
/// The most bytes of a token. Session names, policies and subjects are bounded where a session begins.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// The sealed content of a session token.
#[derive(Clone, PartialEq, Eq, Message)]
struct Sealed {
    /// The id of the account.
    #[prost(uint64, tag = "1")]
    account: u64,
    /// The number of the role.
    #[prost(uint64, tag = "2")]
    role: u64,
    /// The role's name, under which it is found.
    #[prost(string, tag = "3")]
    role_name: String,
    /// The name of the session.
    #[prost(string, tag = "4")]
    name: String,
    /// The policy; empty: none.
    #[prost(string, tag = "5")]
    policy: String,
    /// When it expires, in seconds since 1970.
    #[prost(sfixed64, tag = "6")]
    expires: i64,
    /// The secret access key.
    #[prost(string, tag = "7")]
    secret: String,
}

impl Store {
    /// Begins a session of a role. Whether the caller may take the role has to be known already.
    pub fn begin_role_session(&self, role: &Role, asked: NewRoleSession) -> Result<RoleCredentials> {
        let random = &*self.core.random;
        let access_key_id = format!("{SESSION_KEY_PREFIX}{}", letters(random, ID_LETTERS, 16));
        let secret = Secret::new(letters(random, SECRET_LETTERS, 40));
        let expires = self.core.clock.now().parts().0.saturating_add(i64::from(asked.seconds));
        let sealed = Sealed {
            account: role.account_id,
            role: role.id,
            role_name: role.name.clone(),
            name: asked.name,
            policy: asked.policy.unwrap_or_default(),
            expires,
            secret: secret.reveal().to_owned(),
        };
        let bytes = zeroize::Zeroizing::new(sealed.encode_to_vec());
        let sealed = self.access.master.sealer().seal_session(random, &bytes, &access_key_id)?;
        let token = URL_SAFE_NO_PAD.encode([&[VERSION], &sealed[..]].concat());
        let expires = Timestamp::from_parts(expires, 0);
        Ok(RoleCredentials { access_key_id, secret, token: Secret::new(token), expires })
    }

    /// The session of an access key and its token, as the records are now.
    pub fn role_session(&self, access_key_id: &str, token: &str) -> Result<Result<RoleSession, SessionFault>> {
        let Some(sealed) = self.open_token(access_key_id, token) else { return Ok(Err(SessionFault::Invalid)) };
        if self.core.clock.now().parts().0 >= sealed.expires {
            return Ok(Err(SessionFault::Expired));
        }
        let snapshot = self.core.meta.snapshot();
        let found = role::find(&*snapshot, sealed.account, &sealed.role_name)?;
        let Some(found) = found.filter(|found| found.id == sealed.role) else { return Ok(Err(SessionFault::Invalid)) };
        let Some(account) = account::by_id(&*snapshot, sealed.account)? else { return Ok(Err(SessionFault::Invalid)) };
        let role = Role {
            account: account.name.clone(),
            account_id: account.id,
            name: sealed.role_name.clone(),
            id: found.id,
            created: Timestamp(found.created),
            creator: found.creator(),
            identities: Vec::new(),
            accounts: Vec::new(),
        };
        Ok(Ok(RoleSession {
            role_id: role.unique_id(),
            role: sealed.role_name,
            account,
            secret: Secret::new(sealed.secret),
            name: sealed.name,
            policy: Some(sealed.policy).filter(|policy| !policy.is_empty()),
            expires: Timestamp::from_parts(sealed.expires, 0),
        }))
    }

    fn open_token(&self, access_key_id: &str, token: &str) -> Option<Sealed> {
        if token.len() > TOKEN_BYTES_MAX || !access_key_id.starts_with(SESSION_KEY_PREFIX) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let sealed = bytes.strip_prefix(&[VERSION])?;
        let opened = self.access.master.sealer().open_session(sealed, access_key_id)?;
        Sealed::decode(&opened[..]).ok()
    }
}
