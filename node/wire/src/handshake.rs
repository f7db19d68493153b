//! The handshake of a connection, both sides: hello, challenge, proof, welcome.
//!
//! - Four frames within one deadline, each within the bounds for peers that are not admitted yet.
//! - A peer with an unknown access key has to send a proof too, and receives the refusal for a wrong secret. So a
//!   refusal does not reveal whether an access key exists.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::credential::{Binding, Claim, Credential, Prover, Secret, Transcript};
use crate::frame::Frame;
use crate::header::{Bounds, Kind, Role};
use crate::hello::{self, Challenge, Hello, Proof, Shown, Unreadable, Welcome};
use crate::io::{Broken, Pace, read_frame, write_frame};
use crate::refusal::{Reason, Refusal};
use crate::service::{Peer, Service};
use crate::tls::certificate_fault;
use crate::traffic::Traffic;
use crate::version::Versions;

/// Why a connection was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The store refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The other end is not the store that the credential belongs to.
    #[error(
        "the server does not prove that it knows the secret of the access key: it is not the store, or a man in the \
         middle relays the connection"
    )]
    Impostor,
    /// A message breaks a rule.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Failed {
    /// The failure with its cause, for operators.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Broken(Broken::Io(error)) => format!("the connection failed: {error}"),
            failed => failed.to_string(),
        }
    }

    /// What a person has to know of the failure; `None` if the connection only broke. `is_vouched` says whether the
    /// certificate of the server is one of a given authority. Without one, the server is a stranger until its proof: what
    /// it says then may be said by anybody on the way, and must end nothing.
    pub(crate) fn refusal(&self, is_vouched: bool) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) if is_vouched => Some(refusal.clone()),
            Self::Refused(refusal) => Some(refusal.clone().unproven()),
            Self::Impostor => Some(Refusal::new(Reason::Unproven, self.to_string())),
            Self::Broken(Broken::Io(error)) => certificate_fault(error).map(|why| Refusal::new(Reason::Unproven, why)),
            Self::Broken(_) | Self::Unreadable(_) => None,
        }
    }
}

/// What this side offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) versions: Versions,
    pub(crate) features: u64,
}

/// What the store admitted a connection with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) version: u32,
    pub(crate) features: u64,
    pub(crate) requests: u32,
    pub(crate) idle: Duration,
}

/// A stream and the keying material of its TLS connection.
pub(crate) struct Bound<'a, S> {
    pub(crate) stream: &'a mut S,
    pub(crate) binding: &'a Binding,
}

/// The node's side.
pub(crate) async fn introduce<S>(
    bound: Bound<'_, S>,
    role: Role,
    hello: &Hello,
    credential: &Credential,
    limit: Duration,
) -> Result<Admitted, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Bound { stream, binding } = bound;
    let steps = async {
        let greeting = hello.encode();
        write_frame(stream, &Frame::new(Kind::Hello, role, greeting.clone()), limit).await?;
        let answer = expect(stream, role, Kind::Challenge, limit).await?;
        let challenge = hello::challenge(&answer)?;
        let transcript = Transcript { binding, hello: &greeting, challenge: &answer };
        let secret = credential.secret();
        let mac = secret.map_or_else(Vec::new, |secret| transcript.proof(Prover::Node, secret).to_vec());
        let proof = Proof { mac: mac.into() }.encode_to_vec();
        write_frame(stream, &Frame::new(Kind::Proof, role, proof), limit).await?;
        let welcome = hello::welcome(&expect(stream, role, Kind::Welcome, limit).await?)?;
        if secret.is_some_and(|secret| !transcript.is_proof(Prover::Store, secret, &welcome.mac)) {
            return Err(Failed::Impostor);
        }
        let Challenge { version, features, .. } = challenge;
        if !(hello.versions.min..=hello.versions.max).contains(&version) || features & !hello.features != 0 {
            return Err(Failed::Impostor);
        }
        let idle = Duration::from_millis(welcome.idle_ms.into());
        Ok(Admitted { version, features, requests: welcome.requests, idle })
    };
    timeout(limit, steps).await.unwrap_or(Err(Broken::Slow("the handshake").into()))
}

/// Reads the next frame of the handshake, which is of this kind or a refusal.
async fn expect<S>(stream: &mut S, role: Role, kind: Kind, limit: Duration) -> Result<Bytes, Failed>
where
    S: AsyncRead + Unpin,
{
    let frame = read_frame(stream, Bounds::HANDSHAKE, Pace { idle: limit, frame: limit }).await?;
    match frame.kind {
        found if found == kind && frame.role == role => Ok(frame.head),
        Kind::Refusal => Err(Refusal::decode(&frame.head).into()),
        _ => Err(Refusal::new(Reason::Protocol, "a frame of the handshake came out of order").into()),
    }
}

/// What the store says about itself in a welcome, and what it knows of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) requests: u32,
    pub(crate) idle: Duration,
    /// From the beginning of the handshake to its end.
    pub(crate) limit: Duration,
    pub(crate) from: SocketAddr,
    pub(crate) traffic: Arc<Traffic>,
}

/// The store's side: the peer, unless it is refused. `begun` is called once the session is known, before anything is
/// decided about it.
pub(crate) async fn receive<S, V>(
    bound: Bound<'_, S>,
    (service, certificate): (&V, Option<Bytes>),
    (offer, terms): (Offer, Terms),
    nonce: Bytes,
    begun: impl FnOnce(&Bytes),
) -> Result<Peer<V::Identity>, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    let Bound { stream, binding } = bound;
    let mut role = Role::Control;
    let steps = async {
        let first = read_frame(stream, Bounds::HANDSHAKE, Pace { idle: terms.limit, frame: terms.limit }).await?;
        role = first.role;
        let greeting = first.head.clone();
        let hello = read_hello(first)?;
        begun(&hello.session);
        let Some(version) = offer.versions.highest_common(hello.versions) else {
            return Err(Refusal::versions(offer.versions, hello.versions).into());
        };
        let features = offer.features & hello.features;
        let challenge: Bytes = Challenge { version, features, nonce }.encode_to_vec().into();
        write_frame(stream, &Frame::new(Kind::Challenge, role, challenge.clone()), terms.limit).await?;
        let proof = hello::proof(&expect(stream, role, Kind::Proof, terms.limit).await?)?;
        let transcript = Transcript { binding, hello: &greeting, challenge: &challenge };
        let (claim, secret) = claim(service, &hello.shown, certificate.clone(), (&transcript, &proof)).await?;
        let identity = service.admit(claim, &hello, role, certificate).await?;
        let mac = secret.map_or_else(Vec::new, |secret| transcript.proof(Prover::Store, &secret).to_vec());
        let idle_ms = u32::try_from(terms.idle.as_millis()).unwrap_or(u32::MAX);
        let welcome = Welcome { mac: mac.into(), requests: terms.requests, idle_ms }.encode_to_vec();
        write_frame(stream, &Frame::new(Kind::Welcome, role, welcome), terms.limit).await?;
        let Hello { node, session, .. } = hello;
        let (from, traffic) = (terms.from, Arc::clone(&terms.traffic));
        Ok(Peer { role, node, session, version, features, from, traffic, identity })
    };
    let done = timeout(terms.limit, steps).await.unwrap_or(Err(Broken::Slow("the handshake").into()));
    let refusal = match &done {
        Err(Failed::Refused(refusal)) => refusal.clone(),
        Err(Failed::Unreadable(rule)) => Refusal::new(Reason::Protocol, rule.to_string()),
        _ => return done,
    };
    // The peer may be away already; the reason is returned to the caller either way.
    let _ = write_frame(stream, &Frame::new(Kind::Refusal, role, refusal.encode()), Duration::from_secs(1)).await;
    done
}

fn read_hello(first: Frame) -> Result<Hello, Failed> {
    if first.kind != Kind::Hello {
        return Err(Refusal::new(Reason::Protocol, "the first frame of a connection is a hello").into());
    }
    Ok(Hello::decode(first.head)?)
}

/// Checks what the node shows, and returns the secret that the store proves in turn.
async fn claim<V: Service>(
    service: &V,
    shown: &Shown,
    certificate: Option<Bytes>,
    (transcript, proof): (&Transcript<'_>, &Proof),
) -> Result<(Claim, Option<Secret>), Refusal> {
    match shown {
        Shown::AccessKey(id) => {
            let secret = proved(service, id, (transcript, proof)).await?;
            Ok((Claim::AccessKey(id.clone()), Some(secret)))
        }
        Shown::Ticket(ticket) => Ok((Claim::Ticket(ticket.clone()), None)),
        Shown::TicketAndKey { ticket, access_key } => {
            let secret = proved(service, access_key, (transcript, proof)).await?;
            let (ticket, access_key) = (ticket.clone(), access_key.clone());
            Ok((Claim::TicketAndKey { ticket, access_key }, Some(secret)))
        }
        Shown::Certificate => match certificate {
            Some(certificate) => Ok((Claim::Certificate(certificate), None)),
            None => {
                let advice = "the node shows no credential: give it a key, a ticket or a certificate for nodes";
                Err(Refusal::new(Reason::Credential, advice))
            }
        },
    }
}

/// The secret of an access key, if the node has proved that it knows it.
async fn proved<V: Service>(
    service: &V,
    access_key: &str,
    (transcript, proof): (&Transcript<'_>, &Proof),
) -> Result<Secret, Refusal> {
    let known = service.secret(access_key).await;
    let compared = known.clone().unwrap_or_else(|| Secret::new(""));
    let is_proof = transcript.is_proof(Prover::Node, &compared, &proof.mac);
    known.filter(|_| is_proof).ok_or_else(|| {
        let advice = "the access key is unknown or revoked, or its secret is wrong: check the credentials";
        Refusal::new(Reason::Credential, advice)
    })
}
