//! The callers of the access tests, and a server that knows them.

use std::time::Duration;

use crate::signatures::{Answer, Request, Signer, Wire};
use crate::support::*;

/// The bucket that rights are granted on. It belongs to the account `owner`.
pub const BUCKET: &str = "vessel";
/// A bucket of the account `foreign`.
pub const FOREIGN_BUCKET: &str = "foreign-bucket";
/// Snapshots of both buckets.
pub const SNAPSHOT: &str = "vessel-frozen";
pub const FOREIGN_SNAPSHOT: &str = "foreign-frozen";

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The root account.
    Root,
    /// The account that the bucket belongs to.
    Owner,
    /// An account with the grant `owner`.
    Keeper,
    /// An account with the grant `rw`.
    Both,
    /// An account with the grant `ro`.
    Reader,
    /// An account with the grant `wo`.
    Writer,
    /// An account with its own bucket, and without rights on this one.
    Foreign,
    /// An account whose grant `rw` was revoked.
    Ungranted,
    /// A deleted key of an account with the grant `rw`.
    Deleted,
    /// A key of an account with the grant `rw` that was rotated out.
    Rotated,
    /// A deleted account that had the grant `rw`.
    DeletedAccount,
    /// The key id of `Both` with another secret.
    WrongSecret,
    /// An expired presigned URL of the owner.
    Expired,
    /// A signature of the owner that is twenty minutes old.
    OldSignature,
    /// A request without a signature.
    Anonymous,
}

pub const CALLERS: [Caller; 15] = [
    Caller::Root,
    Caller::Owner,
    Caller::Keeper,
    Caller::Both,
    Caller::Reader,
    Caller::Writer,
    Caller::Foreign,
    Caller::Ungranted,
    Caller::Deleted,
    Caller::Rotated,
    Caller::DeletedAccount,
    Caller::WrongSecret,
    Caller::Expired,
    Caller::OldSignature,
    Caller::Anonymous,
];

impl Caller {
    /// The status and error code of a refusal.
    pub fn refusal(self) -> (u16, &'static str) {
        match self {
            Self::Deleted | Self::Rotated | Self::DeletedAccount => (403, "InvalidAccessKeyId"),
            Self::WrongSecret => (403, "SignatureDoesNotMatch"),
            Self::OldSignature => (403, "RequestTimeTooSkewed"),
            _ => (403, "AccessDenied"),
        }
    }
}

/// A server, and the keys of all callers.
pub struct World {
    pub server: Server,
    keys: Vec<(Caller, Credentials)>,
}

impl World {
    pub fn new() -> Self {
        let server = Server::start();
        let mut world = Self { keys: vec![(Caller::Root, server.credentials())], server };
        for (caller, name, flags) in [
            (Caller::Owner, "owner", &["--may-create-buckets"][..]),
            (Caller::Foreign, "foreign", &["--may-create-buckets"]),
            (Caller::Keeper, "keeper", &[]),
            (Caller::Both, "both", &[]),
            (Caller::Reader, "reader", &[]),
            (Caller::Writer, "writer", &[]),
            (Caller::Ungranted, "ungranted", &[]),
            (Caller::Deleted, "deleted", &[]),
            (Caller::Rotated, "rotated", &[]),
            (Caller::DeletedAccount, "gone", &[]),
        ] {
            world.admin(&[&["account", "create", name], flags].concat());
            let key = cli::key_of(&cli::json(&world.server, &["key", "create", "--account", name]));
            world.keys.push((caller, key));
        }
        let both = world.key(Caller::Both);
        let mistaken = Credentials { secret_access_key: "x".repeat(40), ..both };
        world.keys.push((Caller::WrongSecret, mistaken));
        world.make_buckets();
        world.revoke_access();
        world
    }

    fn make_buckets(&self) {
        let locked = Request::new("PUT", format!("/{BUCKET}")).header("x-amz-bucket-object-lock-enabled", "true");
        self.must(Caller::Owner, &locked);
        self.must(Caller::Foreign, &Request::new("PUT", format!("/{FOREIGN_BUCKET}")));
        for (bucket, key) in [(BUCKET, "k"), (BUCKET, "held"), (BUCKET, "other"), (FOREIGN_BUCKET, "secret")] {
            self.must(Caller::Root, &Request::new("PUT", format!("/{bucket}/{key}")).body(format!("content of {key}")));
        }
        self.grant(BUCKET);
        for name in ["ungranted", "deleted", "rotated", "gone"] {
            self.admin(&["grant", "add", BUCKET, "--account", name, "--mode", "rw"]);
        }
        self.admin(&["snapshot", "create", BUCKET, SNAPSHOT]);
        self.admin(&["snapshot", "create", FOREIGN_BUCKET, FOREIGN_SNAPSHOT]);
    }

    /// Makes the grants of all callers.
    pub fn grant(&self, bucket: &str) {
        for (name, mode) in [("keeper", "owner"), ("both", "rw"), ("reader", "ro"), ("writer", "wo")] {
            self.admin(&["grant", "add", bucket, "--account", name, "--mode", mode]);
        }
    }

    fn revoke_access(&self) {
        for caller in [Caller::Ungranted, Caller::Deleted, Caller::Rotated, Caller::DeletedAccount] {
            self.must(caller, &Request::new("GET", format!("/{BUCKET}/k")));
        }
        self.admin(&["grant", "remove", BUCKET, "--account", "ungranted"]);
        self.admin(&["key", "delete", &self.key(Caller::Deleted).access_key_id]);
        self.admin(&["key", "rotate", "--account", "rotated"]);
        self.admin(&["key", "rotate", "--account", "rotated"]);
        self.admin(&["account", "delete", "gone"]);
    }

    pub fn admin(&self, args: &[&str]) {
        cli::json(&self.server, args);
    }

    pub fn key(&self, caller: Caller) -> Credentials {
        let known = self.keys.iter().find(|(known, _)| *known == caller);
        known.unwrap_or_else(|| panic!("{caller:?} has no key")).1.clone()
    }

    pub fn signer(&self, caller: Caller) -> Signer {
        Signer { key: self.key(caller), ..Signer::new(&self.server) }
    }

    /// The request as the caller sends it.
    pub fn wire(&self, caller: Caller, request: &Request) -> Wire {
        match caller {
            Caller::Anonymous => self.signer(Caller::Root).unsigned(request),
            Caller::OldSignature => self.signer(Caller::Owner).earlier(Duration::from_secs(20 * 60)).sign(request),
            Caller::Expired => {
                let earlier = self.signer(Caller::Owner).earlier(Duration::from_secs(7200));
                earlier.presign(request, Duration::from_secs(60))
            }
            caller => self.signer(caller).sign(request),
        }
    }

    pub fn send(&self, caller: Caller, request: &Request) -> Answer {
        self.wire(caller, request).send(&self.signer(Caller::Root).host)
    }

    /// Makes a request that must succeed.
    #[track_caller]
    pub fn must(&self, caller: Caller, request: &Request) -> Answer {
        let answer = self.send(caller, request);
        assert!(answer.status < 300, "{caller:?} {} {}?{}: {answer}", request.method, request.path, request.query);
        answer
    }
}

/// The text between these two strings of an answer.
pub fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
    found.unwrap_or_else(|| panic!("no {from}…{to} in {text}")).0
}
