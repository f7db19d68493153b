//! The command line.

use std::time::Duration;

/// The usage message.
pub const USAGE: &str = "usage: load OPERATION --endpoint HOST:PORT --key ID --secret SECRET [options]
operations: make-bucket, put, put-signed (aws-chunked, each chunk signed), get, list (all keys, page by page),
            list-prefixes (one page with delimiter), delete
  --bucket NAME (bench)   --prefix P (load/)   --size BYTES (4096)   --clients N (1)   --seconds S (60)
  --count N   no more than so many requests    --keys N   keys there are, for get (of a put before: its requests)
  --pid N     report this process's CPU and memory     --region R (us-east-1)";

/// The parsed command line.
pub struct Options {
    pub operation: String,
    pub endpoint: String,
    pub region: String,
    pub key: String,
    pub secret: String,
    pub bucket: String,
    pub prefix: String,
    pub size: usize,
    pub clients: usize,
    pub time: Duration,
    pub count: Option<u64>,
    pub keys: u64,
    pub pid: Option<u32>,
}

impl Options {
    /// Reads the arguments.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let operation = arguments.next().ok_or("the operation is missing")?;
        let mut options = Self {
            operation,
            endpoint: String::new(),
            region: "us-east-1".into(),
            key: String::new(),
            secret: String::new(),
            bucket: "bench".into(),
            prefix: "load/".into(),
            size: 4096,
            clients: 1,
            time: Duration::from_secs(60),
            count: None,
            keys: 1,
            pid: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
            options.set(&name, value)?;
        }
        if options.endpoint.is_empty() || options.key.is_empty() || options.secret.is_empty() {
            return Err("--endpoint, --key and --secret are needed".into());
        }
        if options.operation == "make-bucket" {
            options.count = Some(1);
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: a whole number is needed"));
        match name {
            "--endpoint" => self.endpoint = value,
            "--region" => self.region = value,
            "--key" => self.key = value,
            "--secret" => self.secret = value,
            "--bucket" => self.bucket = value,
            "--prefix" => self.prefix = value,
            "--size" => self.size = usize::try_from(number()?).map_err(|error| error.to_string())?,
            "--clients" => self.clients = usize::try_from(number()?).map_err(|error| error.to_string())?,
            "--seconds" => {
                let seconds = value.parse().map_err(|_| format!("{name} {value}: a number is needed"))?;
                self.time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
            }
            "--count" => self.count = Some(number()?),
            "--keys" => self.keys = number()?.max(1),
            "--pid" => self.pid = Some(u32::try_from(number()?).map_err(|error| error.to_string())?),
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }
}
