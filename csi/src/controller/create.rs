//! Creating a volume. CSI v1.12, CreateVolume.
//!
//! - The name determines the bucket. An existing volume is the requested one if it was created with the same name,
//!   parameters and source, and its current size is within the requested bounds.
//! - The bucket and its attributes are created in one transaction, so nothing has to be undone. The disk of a block volume
//!   is created after it: if that fails, the bucket is deleted again, and a repeated request completes what a crash left.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, CreateBucket, Creator, Fill, Source, Versioning};
use objstore::{Error, Noun};
use proto::csi::v1::volume_content_source::Type;
use proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse};
use tonic::Status;

use super::Controller;
use super::parameters::{OPTIONAL, Parameters};
use super::template::{Template, unfit};
use super::volume::{SOURCE, describe, source_attribute};
use crate::capability::{Capability, Kind};
use crate::capacity::Range;
use crate::{Config, NAME, OWNER, PROVISIONER, Topology, disk, filling, is_provisioned, status, volume_id};

/// The requested volume.
struct Wanted {
    bucket: BucketName,
    kind: Kind,
    range: Range,
    parameters: Parameters,
    source: Option<Source>,
    /// The bucket that the class names, if the claim has no source of its own.
    template: Option<Template>,
    attributes: BTreeMap<String, String>,
}

impl Wanted {
    fn parse(request: &CreateVolumeRequest, driver_name: &str) -> Result<Self, Status> {
        let bucket = volume_id::for_volume(&request.name)?;
        let kind = Capability::parse_all(&request.volume_capabilities)?.first().map_or(Kind::Mount, |first| first.kind);
        let range = Range::parse(request.capacity_range.as_ref())?;
        let parameters = Parameters::with_mutable(&request.parameters, &request.mutable_parameters);
        let parameters = parameters.map_err(status::of)?;
        if kind == Kind::Block && parameters.versioning != Versioning::Disabled {
            return Err(Status::invalid_argument(
                "a block volume keeps no versions; leave out the parameter versioning",
            ));
        }
        let source = match &request.volume_content_source {
            None => None,
            Some(source) => Some(source.r#type.as_ref().ok_or_else(|| {
                Status::invalid_argument("volume_content_source names neither a snapshot nor a volume")
            })?),
        };
        let mut attributes = parameters.attributes();
        attributes.insert(PROVISIONER.to_owned(), driver_name.to_owned());
        attributes.insert(NAME.to_owned(), request.name.clone());
        attributes.extend((kind == Kind::Block).then(|| (disk::ACCESS.to_owned(), disk::BLOCK.to_owned())));
        attributes.extend(source.map(|source| (SOURCE.to_owned(), source_attribute(source))));
        let source = source.map(store_source).transpose()?;
        let template = Template::parse(&request.parameters).map_err(status::of)?.filter(|_| source.is_none());
        if kind == Kind::Block && template.as_ref().is_some_and(|template| template.prefix.is_some()) {
            return Err(Status::invalid_argument(
                "a block volume begins with a disk image, not with a folder; leave out the parameter fromPrefix",
            ));
        }
        attributes.extend(template.iter().flat_map(Template::attributes));
        Ok(Self { bucket, kind, range, parameters, source, template, attributes })
    }

    /// Answers with an existing bucket if it is the requested volume.
    fn settle(&self, found: &Bucket, config: &Config, is_elsewhere: bool) -> Result<CreateVolumeResponse, Status> {
        let taken = |why: &str| {
            let name = self.bucket.to_string();
            Err(status::of(Error::Exists { noun: Noun::Bucket, name, why: why.into() }))
        };
        if !is_provisioned(found, &config.driver_name) {
            return taken("this driver did not make it");
        }
        // Attributes that others keep with the bucket do not make it a different volume.
        let same = self.attributes.iter().all(|(key, value)| found.attributes.get(key) == Some(value));
        let differs = |key: &str| found.attributes.contains_key(key) != self.attributes.contains_key(key);
        if !same || differs(SOURCE) || differs(disk::ACCESS) || OPTIONAL.into_iter().any(differs) {
            return taken("it was made for another name, with other parameters or from another source");
        }
        if !self.range.admits(found.quota_bytes) {
            return taken("its size is not within the capacity_range");
        }
        if is_elsewhere {
            return taken(&no_such_place(&config.topology));
        }
        Ok(CreateVolumeResponse { volume: Some(describe(found, &config.topology)) })
    }

    fn request(&self, quota_bytes: Option<u64>) -> CreateBucket {
        CreateBucket {
            name: self.bucket.clone(),
            owner: OWNER.to_owned(),
            quota_bytes,
            versioning: self.parameters.versioning,
            source: self.source.clone(),
            attributes: self.attributes.clone(),
            root: self.parameters.root,
        }
    }
}

impl Controller {
    pub(super) async fn create(self, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        let mut wanted = Wanted::parse(&request, &self.config.driver_name)?;
        let is_elsewhere = is_elsewhere(&request, &self.config.topology);
        let _guard = self.locks.hold(wanted.bucket.as_str())?;
        if let Some(found) = self.find(&wanted.bucket).await? {
            let answer = wanted.settle(&found, &self.config, is_elsewhere)?;
            self.fill(&found, wanted.template.as_ref(), &request.secrets).await?;
            self.ensure_disk(&found).await?;
            return Ok(answer);
        }
        if is_elsewhere {
            return Err(Status::resource_exhausted(no_such_place(&self.config.topology)));
        }
        if let Some(template) = &wanted.template {
            let found = self.template(template, &request.secrets).await?;
            match &template.prefix {
                None => wanted.source = Some(found.source),
                Some(prefix) => {
                    self.check_folder(&template.bucket, prefix).await?;
                    wanted.attributes.insert(filling::MARK.to_owned(), Fill::mark(found.id));
                }
            }
        }
        if let Some(Source::Bucket(name)) = &wanted.source
            && let Some(found) = self.find(name).await?
        {
            filling::refuse(&found)?;
        }
        let source = self.disk_of_source(wanted.source.as_ref(), wanted.kind).await?;
        let quota = match wanted.kind {
            Kind::Mount => wanted.range.quota(),
            Kind::Block => Some(disk::size(wanted.range, source)?),
        };
        self.ensure_owner().await?;
        let initial = wanted.parameters.initial;
        match self.store.create_bucket_modified(wanted.request(quota), initial).await {
            Ok((bucket, _)) => {
                self.fill(&bucket, wanted.template.as_ref(), &request.secrets).await?;
                self.make_disk(&bucket).await?;
                Ok(CreateVolumeResponse { volume: Some(describe(&bucket, &self.config.topology)) })
            }
            // Only a clone is created with content.
            Err(error) => Err(unfit(error)),
        }
    }

    async fn ensure_owner(&self) -> Result<(), Status> {
        let known = self.read(|store| match store.account(OWNER) {
            Err(Error::NotFound { .. }) => Ok(false),
            found => found.map(|_| true),
        });
        if !known.await? {
            self.store.create_account_as(OWNER, false, Creator::Csi).await.map_err(status::of)?;
        }
        Ok(())
    }
}

/// Whether a volume has to be usable in other places than volumes are. CSI v1.12, TopologyRequirement.
fn is_elsewhere(request: &CreateVolumeRequest, topology: &Topology) -> bool {
    let asked = request.accessibility_requirements.as_ref().map_or(&[][..], |asked| &asked.requisite);
    !asked.is_empty() && !asked.iter().any(|place| topology.admits(place))
}

fn no_such_place(topology: &Topology) -> String {
    format!("volumes can be used in {topology} only (--csi-topology), and none of the requisite topologies lies there")
}

fn store_source(source: &Type) -> Result<Source, Status> {
    match source {
        Type::Snapshot(snapshot) => {
            status::required("volume_content_source.snapshot.snapshot_id", &snapshot.snapshot_id)?;
            Ok(Source::Snapshot(snapshot.snapshot_id.clone()))
        }
        Type::Volume(volume) => {
            let id = status::required("volume_content_source.volume.volume_id", &volume.volume_id)?;
            Ok(Source::Bucket(id.parse().map_err(|_| status::no_such_volume(id))?))
        }
    }
}
