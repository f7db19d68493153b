//! The steps of the demo, in order.

use std::collections::HashMap;

use tests::server::Server;

use crate::cosi::{Access, Cosi};
use crate::csi::Csi;
use crate::s3::S3;
use crate::{Failure, expect, step};

const BUCKET: &str = "demo-bucket";
const OBJECT: &str = "letters/object.txt";
const FILE: &str = "letters/file.txt";

/// Clients of the endpoints, and the access that COSI granted.
struct Stage {
    cosi: Cosi,
    csi: Csi,
    access: Access,
    s3: S3,
}

/// COSI makes a bucket and grants access; an S3 client stores an object with the granted key.
async fn begin(server: &Server) -> Result<Stage, Failure> {
    let mut cosi = Cosi::connect(&server.ready().socket("cosi")).await?;
    let csi = Csi::connect(&server.ready().socket("csi")).await?;
    let bucket = cosi.create_bucket(BUCKET).await?;
    expect("the bucket's id", &bucket.as_str(), &BUCKET)?;
    let access = cosi.grant(BUCKET, "demo-access").await?;
    step("COSI", &format!("made bucket {BUCKET} and granted it to account {} as key {}", access.account, access.key()));
    let s3 = S3::new(access.endpoint(), access.key(), access.secret(), BUCKET);
    s3.put(OBJECT, "from S3").await?;
    step("S3", &format!("put object {OBJECT} with the granted key"));
    Ok(Stage { cosi, csi, access, s3 })
}

/// All steps.
pub async fn with_mounts(server: &Server) -> Result<(), Failure> {
    let mut stage = begin(server).await?;
    let secret = stage.access.kubernetes_secret(BUCKET);
    let pod = stage.csi.publish(BUCKET, &server.home().path().join("bucket"), secret).await?;
    step("CSI", &format!("staged and published the bucket at {} with the COSI Secret", pod.target.display()));

    expect("the object as a file", &std::fs::read_to_string(pod.target.join(OBJECT))?, &"from S3".into())?;
    step("mount", &format!("the object is the file {OBJECT}"));
    std::fs::write(pod.target.join(FILE), "from the mount")?;
    expect("the file as an object", &stage.s3.get(FILE).await?, &"from the mount".into())?;
    step("S3", &format!("the file {FILE}, written through the mount, is an object at once"));

    let snapshot = stage.csi.snapshot(BUCKET, "demo-snapshot").await?;
    step("CSI", &format!("took the snapshot {snapshot}"));
    stage.s3.put(FILE, "changed by S3").await?;
    std::fs::write(pod.target.join(OBJECT), "changed by the mount")?;
    expect("the file after S3's change", &std::fs::read_to_string(pod.target.join(FILE))?, &"changed by S3".into())?;
    expect("the object after the mount's change", &stage.s3.get(OBJECT).await?, &"changed by the mount".into())?;
    step("both", "each side changed what the other had written, and saw the other's change");

    let volume = stage.csi.clone_of(&snapshot, "demo-clone").await?;
    let clone = stage.csi.publish(&volume, &server.home().path().join("clone"), HashMap::new()).await?;
    expect("the object in the clone", &std::fs::read_to_string(clone.target.join(OBJECT))?, &"from S3".into())?;
    expect("the file in the clone", &std::fs::read_to_string(clone.target.join(FILE))?, &"from the mount".into())?;
    step("CSI", &format!("the snapshot's clone {volume}, mounted beside, shows the old content"));

    revoke(&mut stage).await?;
    stage.csi.unpublish(clone).await?;
    stage.csi.unpublish(pod).await?;
    step("CSI", "unpublished and unstaged both volumes");
    delete_all(stage, &volume, &snapshot).await
}

/// The steps that need no mount.
pub async fn without_mounts(server: &Server) -> Result<(), Failure> {
    let mut stage = begin(server).await?;
    let snapshot = stage.csi.snapshot(BUCKET, "demo-snapshot").await?;
    step("CSI", &format!("took the snapshot {snapshot}"));
    stage.s3.put(OBJECT, "changed by S3").await?;
    expect("the object after the change", &stage.s3.get(OBJECT).await?, &"changed by S3".into())?;
    step("S3", &format!("changed object {OBJECT}"));

    let volume = stage.csi.clone_of(&snapshot, "demo-clone").await?;
    let root = server.credentials();
    let clone = S3::new(server.s3(), &root.access_key_id, &root.secret_access_key, &volume);
    expect("the object in the clone", &clone.get(OBJECT).await?, &"from S3".into())?;
    step("S3", &format!("the snapshot's clone {volume}, read with the root key, holds the old content"));

    revoke(&mut stage).await?;
    delete_all(stage, &volume, &snapshot).await
}

async fn revoke(stage: &mut Stage) -> Result<(), Failure> {
    stage.cosi.revoke(BUCKET, &stage.access).await?;
    let code = stage.s3.refusal(OBJECT).await?;
    step("COSI", &format!("revoked the access; S3 refuses the key: {code}"));
    Ok(())
}

async fn delete_all(mut stage: Stage, volume: &str, snapshot: &str) -> Result<(), Failure> {
    stage.csi.delete_volume(volume).await?;
    stage.csi.delete_snapshot(snapshot).await?;
    step("CSI", "deleted the clone and the snapshot");
    stage.cosi.delete_bucket(BUCKET).await?;
    step("COSI", "deleted the bucket");
    Ok(())
}
