//! Every problem type of the API: its status, its code, its title and the page that explains it.
//!
//! One kind per situation that a program may want to tell apart. A kind without a page in `docs/problems` does not compile; a page without a kind fails
//! a test.

use http::StatusCode;

/// The path under which the pages are served, and which begins every `type`.
pub const PAGES_PATH: &str = "/docs/problems";

macro_rules! problem_kinds {
    ($($variant:ident = $status:ident $code:literal, $title:literal;)+) => {
        /// A kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemKind {
            $(#[doc = $title] $variant,)+
        }

        impl ProblemKind {
            /// All of them, by status.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The status that it is answered with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            /// The last part of its `type`.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// What it is, for people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// Its page, in Markdown.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../../../../../docs/problems/", $code, ".md")),)+ }
            }
        }
    };
}

problem_kinds! {
    BadRequest = BAD_REQUEST "bad-request", "The request body cannot be read";
    InvalidQuery = BAD_REQUEST "invalid-query", "Some query parameters are invalid";
    ApiKeyMissing = UNAUTHORIZED "api-key-missing", "No API key was sent";
    ApiKeyInvalid = UNAUTHORIZED "api-key-invalid", "The API key is not valid";
    ApiKeyExpired = UNAUTHORIZED "api-key-expired", "The API key has expired";
    RequestNotVerified = UNAUTHORIZED "request-not-verified", "The request could not be verified";
    InsufficientScope = FORBIDDEN "insufficient-scope", "The API key lacks a scope";
    KeyLimitedToApplication = FORBIDDEN "key-limited-to-application", "The API key is limited to one application";
    OperationalApplication = FORBIDDEN "operational-application", "Nothing can be published to this application";
    AddressNotAllowed = FORBIDDEN "address-not-allowed", "The address may not send to this source";
    NotFound = NOT_FOUND "not-found", "Nothing has this id";
    RouteNotFound = NOT_FOUND "route-not-found", "There is no such route";
    MethodNotAllowed = METHOD_NOT_ALLOWED "method-not-allowed", "The route does not support this method";
    RequestTimeout = REQUEST_TIMEOUT "request-timeout", "The request body did not arrive in time";
    UidTaken = CONFLICT "uid-taken", "The uid is taken";
    NameTaken = CONFLICT "name-taken", "The name is taken";
    ConcurrentChange = CONFLICT "concurrent-change", "The resource was changed by another request";
    LimitReached = CONFLICT "limit-reached", "A limit has been reached";
    ApplicationTooLarge = CONFLICT "application-too-large", "The endpoints of the application have too much configuration";
    BuiltIn = CONFLICT "built-in", "The resource is built in";
    RetryScheduleInUse = CONFLICT "retry-schedule-in-use", "The retry schedule is in use";
    RotationInProgress = CONFLICT "secret-rotation-in-progress", "A secret rotation is in progress";
    OrderingChangeInProgress = CONFLICT "ordering-change-in-progress", "An earlier change of ordering is not complete";
    NoHandshakeKey = CONFLICT "no-handshake-key", "The kind of the source sends no key";
    EndpointDisabled = CONFLICT "endpoint-disabled", "The endpoint is disabled or deleted";
    AppNotCallable = CONFLICT "app-not-callable", "The application cannot be called";
    DeadLetterNotDead = CONFLICT "dead-letter-not-dead", "The dead letter is not dead";
    OperationEnded = CONFLICT "operation-ended", "The operation has ended";
    OperationRequired = CONFLICT "operation-required", "The operation cannot be cancelled";
    TooManyOperations = CONFLICT "too-many-operations", "Too many operations are under way";
    DeliveryOpen = CONFLICT "delivery-open", "A delivery of this event is still open";
    DeliveryEnded = CONFLICT "delivery-ended", "The delivery has ended";
    JobEnded = CONFLICT "job-ended", "The job has ended";
    ApprovalDecided = CONFLICT "approval-decided", "The approval has already been decided";
    TooManyApprovals = CONFLICT "too-many-approvals", "Too many calls are waiting for approval";
    DeliveryHeld = CONFLICT "delivery-held", "The delivery is held behind another";
    DeliveryParked = CONFLICT "delivery-parked", "The delivery is parked";
    AttemptUnderWay = CONFLICT "attempt-under-way", "An attempt of the delivery is under way";
    EventRemoved = CONFLICT "event-removed", "The event was removed";
    EventErased = CONFLICT "event-erased", "The event was erased";
    NoFailedDeliveries = CONFLICT "no-failed-deliveries", "No delivery of the event has failed";
    TooManyDeliveries = CONFLICT "too-many-deliveries", "Too many deliveries for one request";
    PayloadTooLarge = PAYLOAD_TOO_LARGE "payload-too-large", "The request is too large";
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE "unsupported-media-type", "The request body is not declared as JSON";
    InvalidFields = UNPROCESSABLE_ENTITY "invalid-fields", "Some fields are invalid";
    UnknownApplication = UNPROCESSABLE_ENTITY "unknown-application", "The application does not exist";
    UnknownEventType = UNPROCESSABLE_ENTITY "unknown-event-type", "The event type is not defined";
    ArchivedEventType = UNPROCESSABLE_ENTITY "archived-event-type", "The event type is archived";
    SchemaMismatch = UNPROCESSABLE_ENTITY "schema-mismatch", "The data does not match its schema";
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY "idempotency-key-reused", "The idempotency key belongs to another event";
    SchemaTooCostly = UNPROCESSABLE_ENTITY "schema-too-costly", "Checking the schema takes too much work";
    FilterTooCostly = UNPROCESSABLE_ENTITY "filter-too-costly", "Evaluating the filters takes too much work";
    UrlVerificationFailed = UNPROCESSABLE_ENTITY "url-verification-failed", "The URL did not return the challenge";
    ConfigurationTooLarge = UNPROCESSABLE_ENTITY "configuration-too-large", "The configuration is too large to export";
    EventRateLimit = TOO_MANY_REQUESTS "event-rate-limit", "Too many events were published";
    RetryRateLimit = TOO_MANY_REQUESTS "retry-rate-limit", "Too many deliveries were retried by hand";
    ChangeRateLimit = TOO_MANY_REQUESTS "change-rate-limit", "Too many configuration changes";
    TestRateLimit = TOO_MANY_REQUESTS "test-rate-limit", "Too many test events, URL verifications or contract tests";
    ProgressRateLimit = TOO_MANY_REQUESTS "progress-rate-limit", "The progress of the job was reported too often";
    SourceRateLimit = TOO_MANY_REQUESTS "source-rate-limit", "Too many requests came to the source";
    InternalError = INTERNAL_SERVER_ERROR "internal-error", "Internal error";
    CallFailed = BAD_GATEWAY "call-failed", "The app failed to answer the call";
    ServiceUnavailable = SERVICE_UNAVAILABLE "service-unavailable", "The server cannot process the request now";
    CircuitOpen = SERVICE_UNAVAILABLE "circuit-open", "The circuit breaker of the capability is open";
    AppAtCapacity = SERVICE_UNAVAILABLE "app-at-capacity", "The app is at capacity";
    SourcePaused = SERVICE_UNAVAILABLE "source-paused", "The source is paused";
    SourceBacklogFull = SERVICE_UNAVAILABLE "source-backlog-full", "Too many events of the source wait for its processor";
    DiskFull = SERVICE_UNAVAILABLE "disk-full", "No space is left on a disk";
    RequestTooCostly = SERVICE_UNAVAILABLE "request-too-costly", "The request exceeds its evaluation limit";
    EvaluationBusy = SERVICE_UNAVAILABLE "evaluation-busy", "Too many schemas, filters and searches are being evaluated";
    CallTimedOut = GATEWAY_TIMEOUT "call-timed-out", "The app did not answer in time";
}

impl ProblemKind {
    /// What problems of this kind have as their `type`.
    pub fn type_path(self) -> String {
        format!("{PAGES_PATH}/{}", self.code())
    }

    /// The kind with this code.
    pub fn with_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_problem_type_has_a_page_and_every_page_a_problem_type() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/problems");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let pages: BTreeSet<String> = files.filter(|name| name != "README.md").collect();
        let kinds: BTreeSet<String> = ProblemKind::ALL.iter().map(|kind| format!("{}.md", kind.code())).collect();
        assert_eq!(pages, kinds);
        assert_eq!(kinds.len(), ProblemKind::ALL.len(), "two kinds have the same code");
    }

    #[test]
    fn every_page_has_the_title_the_status_and_says_what_happened_why_and_what_to_do() {
        for kind in ProblemKind::ALL {
            let page = kind.page();
            assert!(page.starts_with(&format!("# {}\n\nStatus {}.\n", kind.title(), kind.status().as_u16())), "{}", kind.code());
            for part in ["\n**What happened:** ", "\n**Why:** ", "\n**What to do:** "] {
                assert!(page.contains(part), "{} lacks{part}", kind.code());
            }
            assert!(page.lines().all(|line| line.len() <= 160), "{} has a long line", kind.code());
        }
    }

    #[test]
    fn the_list_of_pages_names_every_problem_type() {
        let list = include_str!("../../../../../docs/problems/README.md");
        for kind in ProblemKind::ALL {
            let row = format!("| [`{0}`]({0}.md) | {1} | {2} |", kind.code(), kind.status().as_u16(), kind.title());
            assert!(list.contains(&row), "docs/problems/README.md lacks the row {row}");
        }
    }
}
