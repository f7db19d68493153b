//! Both handles of one bucket: an S3 client, and a mount of the server under test.

use std::collections::VecDeque;
use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use proto::amphora::admin::v1::GetBucketRequest;
use proto::amphora::admin::v1::admin_client::AdminClient;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tonic::transport::Channel;

use super::step::{Mode, NOWHERE, Refusal, Step};
use crate::support::access::{client_of, code};
use crate::support::load::Content;
use crate::support::*;

/// The bucket.
pub const BUCKET: &str = "both";
/// The user metadata entry that some objects have.
pub const METADATA: &str = "note";

/// A server that is used through S3 and through a mount.
pub struct Both {
    runtime: tokio::runtime::Runtime,
    client: aws_sdk_s3::Client,
    admin: AdminClient<Channel>,
    held: VecDeque<File>,
    /// The number of bytes that the step's writes wrote before one was refused.
    written: usize,
    mount: Mounted,
    _server: Server,
}

/// The entity tag in the answer to an S3 write; `None` from a mount.
type Done = Result<Option<String>, Refusal>;

impl Both {
    /// A new server with the bucket, mounted.
    pub fn new(quota: Option<u64>) -> Self {
        let server = Server::start();
        let quota = quota.map(|bytes| bytes.to_string());
        make_bucket(&server, BUCKET, &quota.as_deref().map_or(vec![], |quota| vec!["--quota", quota]));
        let mount = Mounted::new(&server, BUCKET, "m");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let admin = runtime.block_on(grpc::channel(&server.home().socket("admin")));
        let client = client_of(&server, &server.credentials());
        Self {
            runtime,
            client,
            admin: AdminClient::new(admin),
            held: VecDeque::new(),
            written: 0,
            mount,
            _server: server,
        }
    }

    /// The path at which the mount shows a key.
    pub fn path(&self, key: &str) -> PathBuf {
        self.mount.path().join(key)
    }

    /// The root of the mount.
    pub fn root(&self) -> &Path {
        self.mount.path()
    }

    /// The number of bytes that a refused step wrote before.
    pub fn written_before_refusal(&self) -> usize {
        self.written
    }

    /// Performs a step.
    pub fn apply(&mut self, step: &Step) -> Done {
        match step {
            Step::Put { key, content, metadata } => self.put(key, content.bytes(), metadata.as_deref()),
            Step::Upload { key, content } => self.upload(key, content.bytes()),
            Step::Copy { from, to } => self.copy(from, to),
            Step::Delete { key } => self.delete(key).map(|()| None),
            step => self.call(step).map(|()| None).map_err(|error| {
                let number = error.raw_os_error().unwrap_or_else(|| panic!("an error of the system: {error}"));
                Errno::from_raw_os_error(number).into()
            }),
        }
    }

    /// PutObject.
    pub fn put(&self, key: &str, content: Vec<u8>, metadata: Option<&str>) -> Done {
        let put = self.client.put_object().bucket(BUCKET).key(key).body(content.into());
        let put = metadata.into_iter().fold(put, |put, value| put.metadata(METADATA, value));
        Ok(refused(self.runtime.block_on(put.send()))?.e_tag)
    }

    /// A multipart upload of one part.
    pub fn upload(&self, key: &str, content: Vec<u8>) -> Done {
        let of = (BUCKET, key);
        let create = self.client.create_multipart_upload().bucket(of.0).key(of.1);
        let id = refused(self.runtime.block_on(create.send()))?.upload_id.expect("an id");
        let part = self.client.upload_part().bucket(of.0).key(of.1).upload_id(&id).part_number(1).body(content.into());
        let part = match refused(self.runtime.block_on(part.send())) {
            Ok(part) => part,
            Err(refusal) => {
                let abort = self.client.abort_multipart_upload().bucket(of.0).key(of.1).upload_id(&id);
                refused(self.runtime.block_on(abort.send()))?;
                return Err(refusal);
            }
        };
        let part = CompletedPart::builder().part_number(1).set_e_tag(part.e_tag).build();
        let parts = CompletedMultipartUpload::builder().parts(part).build();
        let complete = self.client.complete_multipart_upload().bucket(of.0).key(of.1).upload_id(&id);
        Ok(refused(self.runtime.block_on(complete.multipart_upload(parts).send()))?.e_tag)
    }

    /// CopyObject.
    pub fn copy(&self, from: &str, to: &str) -> Done {
        let copy = self.client.copy_object().bucket(BUCKET).key(to).copy_source(format!("{BUCKET}/{}", escape(from)));
        let done = refused(self.runtime.block_on(copy.send()))?;
        Ok(done.copy_object_result.and_then(|result| result.e_tag))
    }

    /// DeleteObject.
    pub fn delete(&self, key: &str) -> Result<(), Refusal> {
        let delete = self.client.delete_object().bucket(BUCKET).key(key);
        refused(self.runtime.block_on(delete.send())).map(drop)
    }

    /// The S3 client, for other requests; [`Both::wait`] sends them.
    pub fn client(&self) -> &aws_sdk_s3::Client {
        &self.client
    }

    /// Waits for an answer.
    pub fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    /// GetObject: the content, and its entity tag.
    pub fn get(&self, key: &str) -> Result<(Vec<u8>, Option<String>), Refusal> {
        let object = refused(self.runtime.block_on(self.client.get_object().bucket(BUCKET).key(key).send()))?;
        let tag = object.e_tag.clone();
        Ok((self.runtime.block_on(object.body.collect()).expect("the whole body").to_vec(), tag))
    }

    /// HeadObject; `None` for 404.
    pub fn head(&self, key: &str) -> Option<HeadObjectOutput> {
        match self.runtime.block_on(self.client.head_object().bucket(BUCKET).key(key).send()) {
            Ok(head) => Some(head),
            Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 404) => None,
            Err(error) => panic!("HEAD {key}: {error:?}"),
        }
    }

    /// A page of ListObjectsV2.
    pub fn list(&self, prefix: &str, delimiter: Option<&str>, after: &str, limit: i32) -> ListObjectsV2Output {
        let list = self
            .client
            .list_objects_v2()
            .bucket(BUCKET)
            .prefix(prefix)
            .start_after(after)
            .max_keys(limit)
            .set_delimiter(delimiter.map(str::to_owned));
        self.runtime.block_on(list.send()).expect("a listing")
    }

    /// The bytes that count against the quota.
    pub fn used_bytes(&mut self) -> u64 {
        let request = GetBucketRequest { name: BUCKET.to_owned() };
        self.runtime.block_on(self.admin.get_bucket(request)).expect("the bucket").into_inner().used_bytes
    }

    /// The content of the files kept open, the oldest first.
    pub fn held_contents(&self) -> impl Iterator<Item = Vec<u8>> {
        self.held.iter().map(|file| {
            let mut content = vec![0; usize::try_from(file.metadata().expect("open").len()).expect("small")];
            file.read_exact_at(&mut content, 0).expect("an open file is read");
            content
        })
    }

    /// Writes with as few calls as the kernel permits: it splits a write that begins within a page, and the first piece
    /// may fit where the second does not.
    #[expect(clippy::needless_pass_by_value, reason = "closed before the step ends")]
    fn write(&mut self, file: File, offset: usize, content: Content) -> std::io::Result<()> {
        let content = content.bytes();
        while self.written < content.len() {
            self.written += file.write_at(&content[self.written..], (offset + self.written) as u64)?;
        }
        Ok(())
    }

    fn call(&mut self, step: &Step) -> std::io::Result<()> {
        self.written = 0;
        let root = self.mount.path().to_owned();
        let at = |path: &String| root.join(path);
        let writable = |path: &String| OpenOptions::new().read(true).write(true).open(at(path));
        match step {
            Step::Write { path, content } => self.write(File::create(at(path))?, 0, *content),
            Step::Append { path, content } => self.write(OpenOptions::new().append(true).open(at(path))?, 0, *content),
            Step::WriteAt { path, offset, content } => self.write(writable(path)?, *offset, *content),
            Step::Truncate { path, size } => writable(path)?.set_len(*size as u64),
            Step::Chmod { path, mode } => std::fs::set_permissions(at(path), Permissions::from_mode(*mode)),
            Step::SetTime { path, seconds } => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
                writable(path)?.set_times(FileTimes::new().set_modified(time))
            }
            Step::MakeDir { path } => std::fs::create_dir(at(path)),
            Step::RemoveDir { path } => std::fs::remove_dir(at(path)),
            Step::Unlink { path } => std::fs::remove_file(at(path)),
            Step::Symlink { path } => std::os::unix::fs::symlink(NOWHERE, at(path)),
            Step::Link { from, to } => std::fs::hard_link(at(from), at(to)),
            Step::Rename { from, to, mode } => {
                let flags = match mode {
                    Mode::Replace => RenameFlags::empty(),
                    Mode::NoReplace => RenameFlags::NOREPLACE,
                    Mode::Exchange => RenameFlags::EXCHANGE,
                };
                Ok(renameat_with(CWD, at(from), CWD, at(to), flags)?)
            }
            Step::Hold { path } => {
                let file = writable(path)?;
                self.held.push_back(file);
                Ok(())
            }
            Step::Release => {
                self.held.pop_front();
                Ok(())
            }
            Step::Put { .. } | Step::Upload { .. } | Step::Copy { .. } | Step::Delete { .. } => unreachable!("of S3"),
        }
    }
}

fn refused<T: std::fmt::Debug, E: ProvideErrorMetadata + std::fmt::Debug>(
    answer: Result<T, SdkError<E>>,
) -> Result<T, Refusal> {
    answer.map_err(|error| Refusal::S3(code(Err::<T, _>(error))))
}

/// Escapes a key for the header with a copy's source.
fn escape(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    key.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
