//! That what was written becomes what is true, and that every fault is told.

use super::*;

fn environment(variables: &[(&str, &str)]) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn file(text: &str) -> (tempfile::TempDir, ServeArgs) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everhook.toml");
    std::fs::write(&path, text).unwrap();
    (folder, ServeArgs { config: Some(path), ..ServeArgs::default() })
}

fn source_of(loaded: &Loaded, name: &str) -> Origin {
    loaded.settings.iter().find(|setting| setting.name == name).unwrap().origin.clone()
}

#[test]
fn the_defaults_are_safe() {
    let config = ServeArgs::default().load_from([]).unwrap().config;
    assert_eq!(config.listen, "127.0.0.1:8080".parse().unwrap());
    assert!(!config.targets.allow_http && config.targets.addresses.is_public_only());
    assert_eq!((config.payload_bytes_max, config.batch_bytes_max), (256 << 10, 16 << 20));
    assert_eq!(config.idempotency_window, Duration::from_secs(86_400));
    assert!(matches!(config.seal_key, SealKey::File(path) if path.ends_with("everhook-data/seal.key")));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let (_folder, mut args) = file("listen = \"127.0.0.1:1\"\nconcurrency = 7\npayload_max = \"1KiB\"\n");
    args.listen = Some("127.0.0.1:3".to_owned());
    let loaded = args.load_from(environment(&[("EVERHOOK_LISTEN", "127.0.0.1:2"), ("EVERHOOK_CONCURRENCY", "8")])).unwrap();
    assert_eq!((loaded.config.listen.port(), loaded.config.concurrency, loaded.config.payload_bytes_max), (3, 8, 1_024));
    assert_eq!(source_of(&loaded, "listen"), Origin::Flag);
    assert_eq!(source_of(&loaded, "concurrency"), Origin::Environment);
    assert!(matches!(source_of(&loaded, "payload_max"), Origin::File(_)));
    assert_eq!(source_of(&loaded, "data"), Origin::Default);
}

/// What is shown of some settings, and their sources.
fn shown<const N: usize>(args: &ServeArgs, names: [&str; N]) -> [String; N] {
    let loaded = args.load_from([]).unwrap();
    names.map(|name| {
        let setting = loaded.settings.iter().find(|setting| setting.name == name).unwrap();
        format!("{} ({})", setting.shown().unwrap_or("-"), setting.source())
    })
}

#[test]
fn what_is_shown_is_in_force_although_nobody_wrote_it() {
    let alone = ServeArgs { data: Some("/here".to_owned()), ..ServeArgs::default() };
    let names = ["api", "pool", "seal_key_file", "retention_attempts", "spool", "spool_max", "allow_http"];
    let expected = ["true", "default", "/here/seal.key", "90d", "-", "-", "false"].map(|value| format!("{value} (default)"));
    assert_eq!(shown(&alone, names), expected);

    let [yes, no] = ["true", "false"].map(|text| Some(text.to_owned()));
    let shared = ServeArgs {
        database: Some("postgres://localhost/everhook".to_owned()),
        seal_key: Some("dGhlIHNlYWxpbmcga2V5IG9mIGEgdGVzdCBub2RlISE=".to_owned()),
        api: yes.clone(),
        retention_events: Some("never".to_owned()),
        ..alone.clone()
    };
    assert_eq!(shown(&shared, ["api"]), ["true (--api)"]);
    let names = ["worker", "scheduler", "pool", "seal_key_file", "retention_attempts", "spool", "spool_max"];
    let expected = ["false", "false", "-", "-", "never", "/here/spool", "1GiB"].map(|value| format!("{value} (default)"));
    assert_eq!(shown(&shared, names), expected);

    let private = ServeArgs { allow_private_networks: yes, allow_http: no, ..alone };
    assert_eq!(shown(&private, ["allow_http"]), ["true (implied by allow_private_networks)"]);
}

#[test]
fn every_setting_that_the_server_cannot_do_without_says_so_if_its_default_is_lost() {
    let mut settings = raw::gather(&ServeArgs::default(), &Default::default(), &file::FileSettings::default());
    settings.retain(|setting| setting.name != "listen");
    let mut faults = Vec::new();
    assert!(check::check(&settings, &mut faults).is_none());
    assert_eq!(faults, ["listen: must be set"]);
}

#[test]
fn what_kubernetes_injects_for_a_service_of_our_name_is_ignored() {
    let injected = [
        ("EVERHOOK_SERVICE_HOST", "10.0.0.1"),
        ("EVERHOOK_SERVICE_PORT", "8080"),
        ("EVERHOOK_SERVICE_PORT_HTTP", "8080"),
        ("EVERHOOK_PORT", "tcp://10.0.0.1:8080"),
        ("EVERHOOK_PORT_8080_TCP_ADDR", "10.0.0.1"),
        // Of Services called `everhook-postgres`, `everhook-redis`, `everhook-api` and `everhook-headless`.
        ("EVERHOOK_POSTGRES_SERVICE_HOST", "10.0.0.2"),
        ("EVERHOOK_REDIS_PORT", "tcp://10.0.0.3:6379"),
        ("EVERHOOK_REDIS_PORT_6379_TCP", "tcp://10.0.0.3:6379"),
        ("EVERHOOK_API_PORT_8080_TCP_PROTO", "tcp"),
        ("EVERHOOK_API_PORT_8080_UDP_PORT", "8080"),
        ("EVERHOOK_HEADLESS_SERVICE_PORT", "80"),
        ("EVERHOOK_HEADLESS_SERVICE_PORT_HTTP", "80"),
    ];
    let (_folder, args) = file("");
    assert!(args.load_from(environment(&injected)).is_ok());
    for misspelled in ["EVERHOOK_PORTS", "EVERHOOK_SERVICE", "EVERHOOK_PORT_NUMBER", "EVERHOOK_REDIS_PORT_TCP", "EVERHOOK_SERVICE_HOSTS"] {
        assert!(args.load_from(environment(&[(misspelled, "1")])).is_err(), "{misspelled} is still a fault");
    }
}

#[test]
fn every_fault_is_reported_at_once() {
    let (_folder, args) = file("listne = \"x\"\nallow_http = \"perhaps\"\n");
    let faults = args.load_from(environment(&[("EVERHOOK_CONCURENCY", "8"), ("EVERHOOK_ADMIN_KEY", "hunter2")])).unwrap_err();
    let text = faults.to_string();
    assert_eq!(faults.0.len(), 4, "{text}");
    for part in ["listne: unknown setting", "EVERHOOK_CONCURENCY", "allow_http = `perhaps`", "admin_key = `***`"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("hunter2"));
}

#[test]
fn a_redis_is_for_nodes_that_share_a_database_and_its_address_is_never_shown() {
    let load = |redis: &str, database: Option<&str>| {
        let args = ServeArgs { redis: Some(redis.to_owned()), database: database.map(str::to_owned), ..ServeArgs::default() };
        args.load_from([])
    };
    let database = Some("postgres://localhost/everhook");
    let loaded = load("rediss://:hush-hush@cache.example/1", database).unwrap();
    assert!(loaded.settings.iter().all(|setting| !format!("{setting:?}").contains("hush-hush")));
    let with_authorities = |redis: Option<&str>| {
        let (redis, database) = (redis.map(str::to_owned), database.map(str::to_owned));
        ServeArgs { redis, database, redis_ca_file: Some("/etc/ca.pem".to_owned()), ..ServeArgs::default() }.load_from([])
    };
    let loaded = with_authorities(Some("rediss://cache.example")).unwrap();
    assert_eq!(loaded.config.redis_ca_file.as_deref(), Some(std::path::Path::new("/etc/ca.pem")));
    for without_tls in [Some("redis://cache.example"), None] {
        assert!(with_authorities(without_tls).unwrap_err().to_string().contains("redis_ca_file: requires"));
    }
    assert!(load("redis://localhost", None).unwrap_err().to_string().contains("requires `database`"));
    assert!(load("localhost:6379", database).unwrap_err().to_string().contains("redis://"));
}

#[test]
fn alerts_about_the_server_go_where_it_is_set_and_that_is_never_shown() {
    let load = |variables: &[(&str, &str)]| ServeArgs::default().load_from(environment(variables));
    let (url, key) = ("https://hooks.slack.example/services/hunter2", "hunter2hunter2hunter2hunter2abcd");
    let loaded = load(&[("EVERHOOK_SLACK_URL", url), ("EVERHOOK_PAGERDUTY_KEY", key)]).unwrap();
    let alerts = &loaded.config.server_alerts;
    assert_eq!(alerts.slack_url.as_ref().map(|target| target.expose().written.as_str()), Some(url));
    assert_eq!(alerts.pagerduty_key.as_ref().map(|key| key.expose().as_str()), Some(key));
    assert!(loaded.settings.iter().all(|setting| !format!("{setting:?}").contains("hunter2")));
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
    for (variables, words) in [
        (&[("EVERHOOK_SLACK_URL", "http://hooks.slack.example/hunter2")][..], "slack_url = `***`"),
        (&[("EVERHOOK_SLACK_URL", "amqp://hunter2.example/queue"), ("EVERHOOK_AMQP_DESTINATIONS", "true")], "slack_url = `***`"),
        (&[("EVERHOOK_PAGERDUTY_KEY", "hunter2")], "pagerduty_key = `***` (EVERHOOK_PAGERDUTY_KEY): must be the 32 letters and digits"),
    ] {
        let text = load(variables).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains("hunter2"), "{words} is missing in {text}");
    }
}

#[test]
fn health_providers_are_reached_as_set_and_the_secret_is_never_shown() {
    let loaded = ServeArgs::default().load_from([]).unwrap();
    let providers = &loaded.config.health_providers;
    assert_eq!(
        (providers.strava.api.as_str(), providers.garmin.api.as_str()),
        ("https://www.strava.com/api/v3", "https://apis.garmin.com/")
    );
    assert!(providers.strava.client.is_none() && providers.garmin.confirm);
    let load = |variables: &[(&str, &str)]| ServeArgs::default().load_from(environment(variables));
    let loaded = load(&[
        ("EVERHOOK_STRAVA_CLIENT_ID", "42"),
        ("EVERHOOK_STRAVA_CLIENT_SECRET", "hunter2"),
        ("EVERHOOK_STRAVA_API_URL", "http://127.0.0.1:9/api"),
        ("EVERHOOK_ALLOW_HTTP", "true"),
        ("EVERHOOK_GARMIN_CONFIRM", "false"),
        ("EVERHOOK_GARMIN_BACKFILL_CHUNK", "7d"),
    ])
    .unwrap();
    assert!(loaded.settings.iter().all(|setting| !format!("{setting:?}").contains("hunter2")));
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
    assert!(!loaded.config.health_providers.garmin.confirm);
    assert_eq!(loaded.config.health_providers.garmin.backfill_chunk.as_secs(), 7 * 86_400);
    for (variables, words) in [
        (&[("EVERHOOK_STRAVA_CLIENT_ID", "42")][..], "strava_client_id: requires `strava_client_secret`"),
        (&[("EVERHOOK_STRAVA_CLIENT_SECRET", "hunter2")], "strava_client_secret: requires `strava_client_id`"),
        (&[("EVERHOOK_GARMIN_API_URL", "http://127.0.0.1:9")], "http requires `allow_http`"),
        (&[("EVERHOOK_GARMIN_API_URL", "https://apis.garmin.com/?x")], "without user, query and fragment"),
        (&[("EVERHOOK_GARMIN_BACKFILL_CHUNK", "23h")], "must be 1d to 90d"),
        (&[("EVERHOOK_GARMIN_BACKFILL_CHUNK", "91d")], "must be 1d to 90d"),
    ] {
        let text = load(variables).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains("hunter2"), "{words} is missing in {text}");
    }
}

#[test]
fn variables_of_the_command_line_are_no_settings_and_no_faults() {
    let variables = environment(&[
        ("EVERHOOK_URL", "http://localhost"),
        ("EVERHOOK_KEY", "eh_x"),
        ("EVERHOOK_LOG", "debug"),
        ("EVERHOOK_TEST_AMQP", "x"),
        ("HOME", "/"),
    ]);
    assert!(ServeArgs::default().load_from(variables).is_ok());
}

#[test]
fn private_networks_are_opened_by_true_or_by_a_list_and_bring_http_with_them() {
    let load = |value: &str| ServeArgs { allow_private_networks: Some(value.to_owned()), ..ServeArgs::default() }.load_from([]);
    let allowed = |value: &str, address: &str| load(value).unwrap().config.targets.addresses.vet(address.parse().unwrap()).is_ok();
    assert!(allowed("true", "127.0.0.1") && allowed("10.0.0.0/8, fd00::/8", "10.1.2.3"));
    assert!(!allowed("10.0.0.0/8", "127.0.0.1"));
    assert!(load("10.0.0.0/8").unwrap().config.targets.allow_http);
    assert!(load("ten").is_err());
}

#[test]
fn a_secret_is_never_shown() {
    let key = format!("eh_{}", "s".repeat(30));
    let loaded = ServeArgs { admin_key: Some(key), ..ServeArgs::default() }.load_from([]).unwrap();
    assert!(!format!("{loaded:?}").contains("sss"));
    assert_eq!(loaded.settings.iter().find(|setting| setting.name == "admin_key").unwrap().shown(), Some("***"));
}

#[test]
fn a_profile_says_what_holds_where_nobody_set_a_limit() {
    let load = |name: &str| ServeArgs { profile: Some(name.to_owned()), ..ServeArgs::default() }.load_from([]);
    assert_eq!(ServeArgs::default().load_from([]).unwrap().config.profile, Profile::plain());
    let hosted = load("hosted").unwrap().config.profile;
    assert_eq!(hosted.rate_limit.map(|limit| (limit.requests.get(), limit.burst.get())), Some((100, 20)));
    assert_eq!(hosted.deliveries_per_minute.map(std::num::NonZeroU32::get), Some(1_000));
    assert!(load("large").is_err());
}

#[test]
fn a_pool_is_for_nodes_that_send_from_a_shared_store() {
    let load = |pool: Option<&str>, flags: &[&str]| {
        let text = |name: &str| flags.contains(&name).then(|| "true".to_owned());
        let database = flags.contains(&"database").then(|| "postgres://localhost/everhook".to_owned());
        ServeArgs { pool: pool.map(str::to_owned), database, api: text("api"), worker: text("worker"), ..ServeArgs::default() }
            .load_from([])
    };
    let table = [
        (None, &[][..], Ok("default")),
        (None, &["database"][..], Ok("default")),
        (Some("heavy"), &["database"][..], Ok("heavy")),
        (Some("heavy"), &["database", "worker"][..], Ok("heavy")),
        (Some("heavy"), &[][..], Err("require `database`")),
        (Some("default"), &[][..], Err("require `database`")),
        (Some("heavy"), &["database", "api"][..], Err("requires the role `worker`")),
        (Some("Heavy!"), &["database"][..], Err("pool = `Heavy!` (--pool): must be 1 to 32 of the characters")),
    ];
    for (pool, flags, expected) in table {
        match (load(pool, flags), expected) {
            (Ok(loaded), Ok(expected)) => assert_eq!(loaded.config.pool.as_str(), expected, "{pool:?} {flags:?}"),
            (Err(faults), Err(words)) => assert!(faults.to_string().contains(words), "{faults}"),
            (loaded, expected) => panic!("{pool:?} {flags:?}: {loaded:?}, not {expected:?}"),
        }
    }
}

#[test]
fn trusted_proxies_are_cidr_blocks_and_none_by_default() {
    let load = |text: Option<&str>| ServeArgs { trusted_proxies: text.map(str::to_owned), ..ServeArgs::default() }.load_from([]);
    assert!(load(None).unwrap().config.trusted_proxies.is_empty());
    assert_eq!(load(Some("10.0.0.0/8, 2001:db8::/32")).unwrap().config.trusted_proxies.len(), 2);
    let text = load(Some("10.0.0.1")).unwrap_err().to_string();
    assert!(text.contains("trusted_proxies") && text.contains("must be a list of CIDR blocks"), "{text}");
}

#[test]
fn events_wait_beside_a_database_and_nowhere_else() {
    let load = |shared: bool, worker: bool, spool_max: Option<&str>| {
        let args = ServeArgs {
            database: shared.then(|| "postgres://db/everhook".to_owned()),
            worker: worker.then(|| "true".to_owned()),
            spool_max: spool_max.map(str::to_owned),
            ..ServeArgs::default()
        };
        args.load_from([])
    };
    let spool = load(true, false, None).unwrap().config.spool.unwrap();
    assert!(spool.folder.ends_with("everhook-data/spool") && spool.bytes_max == 1 << 30, "{spool:?}");
    assert_eq!(load(true, false, Some("2MiB")).unwrap().config.spool.unwrap().bytes_max, 2 << 20);
    assert_eq!(load(false, false, None).unwrap().config.spool, None);
    assert_eq!(load(true, true, None).unwrap().config.spool, None);
    let wrong = [(false, false, "requires `database`"), (true, true, "the role `api`")];
    for (shared, worker, words) in wrong {
        let text = load(shared, worker, Some("2MiB")).unwrap_err().to_string();
        assert!(text.contains("spool_max") && text.contains(words), "{text}");
    }
}

#[test]
fn a_spool_holds_the_largest_event() {
    let load = |spool_max: &str, payload_max: &str| {
        let text = |text: &str| Some(text.to_owned());
        let database = text("postgres://db/everhook");
        ServeArgs { database, spool_max: text(spool_max), payload_max: text(payload_max), ..ServeArgs::default() }.load_from([])
    };
    assert!(load("1MiB", "960KiB").is_ok() && load("1GiB", "16MiB").is_ok());
    let wrong = [
        ("1MiB", "961KiB", "spool_max = `1MiB` (--spool-max): must hold the largest event"),
        ("16MiB", "16MiB", "at least 16448KiB"),
        ("10KiB", "1KiB", "must be 1MiB to 1024GiB"),
    ];
    for (spool_max, payload_max, words) in wrong {
        let text = load(spool_max, payload_max).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_database_address_that_cannot_be_meant_is_a_fault_and_not_shown() {
    let load = |url: &str| ServeArgs { database: Some(url.to_owned()), ..ServeArgs::default() }.load_from([]);
    assert!(load("postgres://u:p%40ss@h:5433/d?sslmode=require").is_ok());
    let wrong = [
        ("mysql://u:hunter2@h/d", "must be the address of a PostgreSQL database"),
        ("postgres://u:hun@ter2@h/d", "write those of the password as %40"),
        ("postgres://u:hunter2@h:port/d", "invalid database address"),
        ("postgres://u:hunter2@h/d?sslrootcert=/ca.pem", "needs `sslmode=verify-full`"),
    ];
    for (url, words) in wrong {
        let text = load(url).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains("hunter2") && !text.contains("ter2"), "{text}");
    }
}

#[cfg(feature = "amqp")]
#[test]
fn a_queue_needs_its_broker_and_the_password_is_never_shown() {
    let load = |amqp: Option<&str>, queue: Option<&str>, application: Option<&str>| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let args = ServeArgs {
            amqp: text(amqp),
            amqp_source_queue: text(queue),
            amqp_source_application: text(application),
            ..Default::default()
        };
        args.load_from([])
    };
    assert!(load(None, None, None).unwrap().config.amqp_source.is_none());
    let loaded = load(Some("amqp://shop:hunter2@localhost/"), Some("events"), Some("orders")).unwrap();
    let source = loaded.config.amqp_source.clone().unwrap();
    assert_eq!((&*source.queue, source.organization, source.application.as_deref()), ("events", None, Some("orders")));
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let wrong = [
        (Some("amqp://localhost"), None, None, "requires amqp_source_queue"),
        (None, Some("events"), None, "requires amqp"),
        (None, None, Some("orders"), "requires amqp_source_queue"),
        (Some("http://u:hunter2@localhost"), Some("events"), None, "amqp = `***` (--amqp): must be a URL"),
        (Some("amqp://localhost"), Some(""), None, "must be a name"),
    ];
    for (amqp, queue, application, words) in wrong {
        let text = load(amqp, queue, application).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
    }
}

#[cfg(feature = "amqp")]
#[test]
fn a_broker_carries_hints_where_nodes_share_a_store_and_events_where_a_queue_is_named() {
    let broker = Some("amqp://shop:hunter2@localhost/".to_owned());
    let table = [(true, true, (true, true)), (true, false, (true, false)), (false, true, (false, true))];
    for (is_shared, has_queue, expected) in table {
        let args = ServeArgs {
            amqp: broker.clone(),
            database: is_shared.then(|| "postgres://localhost/everhook".to_owned()),
            seal_key: is_shared.then(|| "dGhlIHNlYWxpbmcga2V5IG9mIGEgdGVzdCBub2RlISE=".to_owned()),
            amqp_source_queue: has_queue.then(|| "events".to_owned()),
            ..Default::default()
        };
        let config = args.load_from([]).unwrap().config;
        assert_eq!((config.amqp_hints.is_some(), config.amqp_source.is_some()), expected);
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}

#[test]
fn endpoints_that_fail_are_treated_as_it_is_written_also_under_the_names_of_other_platforms() {
    use everhook_core::policy::endpoint_health::HealthPhase;
    let days = |count: u64| Duration::from_secs(count * 86_400);
    let settings = ServeArgs::default().load_from([]).unwrap().config.endpoint_health;
    assert_eq!(settings, EndpointHealthSettings::default());
    let foreign = [
        ("DISABLE_FAILING_ENDPOINTS", "warn"),
        ("ENDPOINT_WARNING_DAYS", "2"),
        ("ENDPOINT_DISABLE_DAYS", "36h"),
        ("EVERHOOK_ENDPOINT_DISABLE_AFTER", "9d"),
        ("HEALTH_CHECK_CRON", "*/5 * * * * *"),
    ];
    let settings = ServeArgs::default().load_from(environment(&foreign)).unwrap().config.endpoint_health;
    assert_eq!((settings.phase, settings.warning_after, settings.disable_after), (HealthPhase::Warn, days(2), days(9)), "ours win");
    let (_folder, args) = file("disable_failing_endpoints = false\nendpoint_failing_min = 5\nendpoint_failing_spread = \"0s\"\n");
    let settings = args.load_from([]).unwrap().config.endpoint_health;
    assert_eq!((settings.phase, settings.rule.failures_min, settings.rule.spread), (HealthPhase::Off, 5, Duration::ZERO));
    let bad = [
        ("EVERHOOK_ENDPOINT_DISABLE_AFTER", "3d", "endpoint_warning_after: must be shorter than endpoint_disable_after"),
        ("EVERHOOK_ENDPOINT_FAILING_SPREAD", "25h", "endpoint_failing_spread: must not be longer than endpoint_failing_window"),
        ("EVERHOOK_HEALTH_CHECK_CRON", "0 0 31 2 *", "names a day that does not exist"),
        ("EVERHOOK_DISABLE_FAILING_ENDPOINTS", "maybe", "must be true, warn, observe or false"),
        ("EVERHOOK_ENDPOINT_FAILING_MIN", "0", "must be from 1 to 1000"),
    ];
    for (name, value, words) in bad {
        let faults = ServeArgs::default().load_from(environment(&[(name, value)])).unwrap_err().to_string();
        assert!(faults.contains(words), "{name}={value}: {faults}");
    }
}

/// What is in force of a setting where one variable is set, as `everhook config` shows it.
fn in_force(variable: &str, value: &str, name: &str) -> Option<String> {
    // Of those that need others, these are there.
    let args = ServeArgs {
        smtp: Some("smtp://localhost:25".to_owned()),
        smtp_from: Some("everhook@example.com".to_owned()),
        ..ServeArgs::default()
    };
    let loaded = args.load_from(environment(&[(variable, value)])).unwrap_or_else(|faults| panic!("{variable}={value}: {faults}"));
    let setting = loaded.settings.iter().find(|setting| setting.name == name).unwrap_or_else(|| panic!("there is no {name}"));
    setting.shown().map(str::to_owned)
}

#[test]
fn variables_of_other_platforms_are_understood_with_their_units() {
    let table = [
        ("WEBHOOK_TIMEOUT_QUIZ_ANSWER", "1500", "call_timeout_quiz_answer", "1500ms"),
        ("WEBHOOK_TIMEOUT_WINNER_SELECTION", "5000", "call_timeout_winner_selection", "5000ms"),
        ("WEBHOOK_TIMEOUT_PARTICIPANT_REGISTRATION", "3s", "call_timeout_participant_registration", "3s"),
        ("WEBHOOK_TIMEOUT_DEFAULT", "10000", "call_timeout", "10000ms"),
        ("CIRCUIT_BREAKER_FAILURE_THRESHOLD", "7", "call_breaker_failures", "7"),
        ("CIRCUIT_BREAKER_RECOVERY_TIMEOUT", "60000", "call_breaker_sleep", "60000ms"),
        ("CIRCUIT_BREAKER_SUCCESS_THRESHOLD", "4", "call_breaker_successes", "4"),
        ("WEBHOOK_RETRY_MAX_ATTEMPTS", "5", "job_retry_max_attempts", "5"),
        ("WEBHOOK_RETRY_INITIAL_DELAY", "2000", "job_retry_initial_delay", "2000ms"),
        ("WEBHOOK_RETRY_MAX_DELAY", "60000", "job_retry_max_delay", "60000ms"),
        ("WEBHOOK_RETRY_BACKOFF_MULTIPLIER", "1.5", "job_retry_multiplier", "1.5"),
        ("APP_HEALTH_CHECK_INTERVAL", "300000", "app_health_check_interval", "300000ms"),
        ("APP_HEALTH_CHECK_TIMEOUT", "5000", "app_health_check_timeout", "5000ms"),
        ("WEBHOOK_METRICS_RETENTION_DAYS", "30", "retention_rollups", "30d"),
        ("PLATFORM_URL", "https://platform.example.com/", "public_url", "https://platform.example.com/"),
        ("DISABLE_FAILING_ENDPOINTS", "observe", "disable_failing_endpoints", "observe"),
        ("ENDPOINT_WARNING_DAYS", "2", "endpoint_warning_after", "2d"),
        ("ENDPOINT_DISABLE_DAYS", "6", "endpoint_disable_after", "6d"),
        ("HEALTH_CHECK_CRON", "0 9 * * *", "health_check_cron", "0 9 * * *"),
        ("SMTP_FROM_NAME", "Hook0 System", "smtp_from_name", "Hook0 System"),
        ("ADMIN_EMAIL_LIST", "a@example.com,b@example.com", "admin_emails", "a@example.com,b@example.com"),
    ];
    for (variable, value, name, expected) in table {
        assert_eq!(in_force(variable, value, name).as_deref(), Some(expected), "{variable}");
    }
}

#[test]
fn mail_is_from_the_name_that_is_written_beside_the_address() {
    let sender = |from: &str, name: &str| {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let args = ServeArgs { smtp: text("smtp://localhost:25"), smtp_from: text(from), ..ServeArgs::default() };
        args.load_from(environment(&[("SMTP_FROM_NAME", name)])).map(|loaded| loaded.config.email.and_then(|email| email.from.name))
    };
    assert_eq!(sender("everhook@example.com", "\"Hook0 System\"").unwrap().as_deref(), Some("Hook0 System"));
    assert_eq!(
        sender("Everhook <everhook@example.com>", "Hook0 System").unwrap().as_deref(),
        Some("Everhook"),
        "what is written with the address wins"
    );
    for (from, name, words) in [("", "Hook0", "smtp_from_name: requires `smtp_from`"), ("a@b.c", "two\nlines", "must be a name")] {
        let faults = sender(from, name).unwrap_err().to_string();
        assert!(faults.contains(words), "{faults}");
    }
}

#[test]
fn how_jobs_are_retried_is_read_and_checked() {
    use everhook_core::policy::presets::JobRetry;
    let read = |variables: &[(&str, &str)]| {
        ServeArgs::default().load_from(environment(variables)).map(|loaded| loaded.config.manifest_defaults.job_retry)
    };
    assert_eq!(read(&[]).unwrap(), JobRetry::default());
    let set = [
        ("WEBHOOK_RETRY_MAX_ATTEMPTS", "5"),
        ("WEBHOOK_RETRY_INITIAL_DELAY", "2000"),
        ("WEBHOOK_RETRY_MAX_DELAY", "1m"),
        ("WEBHOOK_RETRY_BACKOFF_MULTIPLIER", "1.5"),
    ];
    let expected = JobRetry { max_attempts: 5, initial_delay: Duration::from_secs(2), max_delay: Duration::from_secs(60), multiplier: 1.5 };
    assert_eq!(read(&set).unwrap(), expected);
    let bad = [
        ("WEBHOOK_RETRY_MAX_ATTEMPTS", "0", "job_retry_max_attempts"),
        ("WEBHOOK_RETRY_INITIAL_DELAY", "500", "job_retry_initial_delay"),
        ("WEBHOOK_RETRY_INITIAL_DELAY", "31000", "must not be longer than job_retry_max_delay"),
        ("WEBHOOK_RETRY_MAX_DELAY", "forever", "job_retry_max_delay"),
        ("WEBHOOK_RETRY_BACKOFF_MULTIPLIER", "0.5", "must be a number from 1 to 10"),
        ("WEBHOOK_RETRY_BACKOFF_MULTIPLIER", "NaN", "job_retry_multiplier"),
    ];
    for (variable, value, words) in bad {
        let faults = read(&[(variable, value)]).unwrap_err().to_string();
        assert!(faults.contains(words), "{variable}={value}: {faults}");
    }
}
