//! Code, hosting, monitoring and identity.

use super::{Kind, NONE, RecipeFields};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "github",
        title: "GitHub",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Hub-Signature-256 prefix=sha256=",
            over: "{body}",
            body: "any",
            event_type: "H:X-GitHub-Event",
            id: "H:X-GitHub-Delivery",
            max_body: "16M",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "gitlab",
        title: "GitLab (secret token)",
        recipe: RecipeFields { token: "X-Gitlab-Token", event_type: "H:X-Gitlab-Event", ..NONE },
        note: "The token is no signature: anyone who sees a request can forge others. Not verified against the provider: the header of the type.",
    },
    Kind {
        name: "bitbucket",
        title: "Bitbucket",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Hub-Signature prefix=sha256=",
            over: "{body}",
            require: "if_secret",
            event_type: "H:X-Event-Key",
            id: "H:X-Request-UUID",
            ..NONE
        },
        note: "Hooks without a secret are unsigned: leave the secrets out for those.",
    },
    Kind {
        name: "jira",
        title: "Jira",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Hub-Signature prefix=sha256=",
            over: "{body}",
            require: "if_secret",
            event_type: "/webhookEvent",
            id: "H:X-Atlassian-Webhook-Identifier",
            ..NONE
        },
        note: "Hooks made in the user interface are unsigned: leave the secrets out for those. Not verified against the provider: the pointer of the type.",
    },
    Kind {
        name: "gitea",
        title: "Gitea",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Gitea-Signature",
            over: "{body}",
            event_type: "H:X-Gitea-Event",
            id: "H:X-Gitea-Delivery",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "forgejo",
        title: "Forgejo",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Forgejo-Signature|X-Gitea-Signature",
            over: "{body}",
            event_type: "H:X-Forgejo-Event",
            id: "H:X-Forgejo-Delivery",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "sentry",
        title: "Sentry",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Sentry-Hook-Signature",
            over: "{body}",
            event_type: "H:Sentry-Hook-Resource",
            id: "H:Request-ID",
            ..NONE
        },
        note: "Its timestamp is not signed, so that its age is not judged.",
    },
    Kind {
        name: "pagerduty",
        title: "PagerDuty",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-PagerDuty-Signature list=, v1=",
            over: "{body}",
            event_type: "/event/event_type",
            id: "/event/id",
            ..NONE
        },
        note: "Not verified against the provider: the pointers of type and id.",
    },
    Kind {
        name: "circleci",
        title: "CircleCI",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "circleci-signature list=, v1=",
            over: "{body}",
            event_type: "H:circleci-event-type",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "vercel",
        title: "Vercel",
        recipe: RecipeFields { mac: "sha1 hex", sig: "x-vercel-signature", over: "{body}", event_type: "/type", id: "/id", ..NONE },
        note: "Not verified against the provider: the pointer of the id.",
    },
    Kind {
        name: "netlify",
        title: "Netlify",
        recipe: RecipeFields { jwt: "HS256 iss=netlify body_hex=sha256", sig: "X-Webhook-Signature", event_type: "/state", ..NONE },
        note: "",
    },
    Kind {
        name: "heroku",
        title: "Heroku",
        recipe: RecipeFields { mac: "sha256 base64", sig: "Heroku-Webhook-Hmac-SHA256", over: "{body}", id: "/id", ..NONE },
        note: "",
    },
    Kind {
        name: "expo",
        title: "Expo",
        recipe: RecipeFields { mac: "sha1 hex", sig: "expo-signature prefix=sha1=", over: "{body}", id: "/id", ..NONE },
        note: "",
    },
    Kind {
        name: "datadog",
        title: "Datadog",
        recipe: RecipeFields { token: "X-Webhook-Token", body: "any", ..NONE },
        note: "Add a header X-Webhook-Token with your secret to the webhook in Datadog.",
    },
    Kind {
        name: "launchdarkly",
        title: "LaunchDarkly",
        recipe: RecipeFields { mac: "sha256 hex", sig: "X-LD-Signature", over: "{body}", ..NONE },
        note: "",
    },
    Kind {
        name: "tailscale",
        title: "Tailscale",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Tailscale-Webhook-Signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            each: "/*",
            event_type: "/type",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "cloudflare-stream",
        title: "Cloudflare Stream",
        recipe: RecipeFields { mac: "sha256 hex", sig: "Webhook-Signature kv=, sig1", ts: "kv:time s", over: "{ts}.{body}", ..NONE },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "hookdeck",
        title: "Hookdeck",
        recipe: RecipeFields { mac: "sha256 base64", sig: "X-Hookdeck-Signature", over: "{body}", body: "any", ..NONE },
        note: "",
    },
    Kind {
        name: "sanity",
        title: "Sanity",
        recipe: RecipeFields {
            mac: "sha256 base64url",
            sig: "sanity-webhook-signature kv=, v1",
            ts: "kv:t ms",
            over: "{ts}.{body}",
            id: "H:idempotency-key",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "huggingface",
        title: "Hugging Face",
        recipe: RecipeFields { token: "X-Webhook-Secret", event_type: "/event/scope+'.'+/event/action", ..NONE },
        note: "",
    },
    Kind {
        name: "meraki",
        title: "Cisco Meraki",
        recipe: RecipeFields { token: "body:/sharedSecret", event_type: "/alertType", id: "/alertId", ..NONE },
        note: "The secret is a member of the body.",
    },
    Kind {
        name: "okta",
        title: "Okta",
        recipe: RecipeFields {
            token: "Authorization",
            each: "/data/events/*",
            event_type: "/eventType",
            id: "/uuid",
            handshake: "get-echo-json H:X-Okta-Verification-Challenge as=verification",
            ..NONE
        },
        note: "The secret is the whole value of the header Authorization.",
    },
    Kind {
        name: "auth0",
        title: "Auth0 log streams",
        recipe: RecipeFields { token: "Authorization", each: "/*", event_type: "/data/type", id: "/log_id", ..NONE },
        note: "The secret is the whole value of the header Authorization. Choose the content format JSON array.",
    },
    Kind {
        name: "fusionauth",
        title: "FusionAuth",
        recipe: RecipeFields {
            jwt: "HS256 body_base64=request_body_sha256",
            sig: "X-FusionAuth-Signature-JWT",
            event_type: "/event/type",
            id: "/event/id",
            ..NONE
        },
        note: "Sign with an HMAC key (HS256).",
    },
    Kind {
        name: "workos",
        title: "WorkOS",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "WorkOS-Signature kv=, v1",
            ts: "kv:t ms 3m",
            over: "{ts}.{body}",
            event_type: "/event",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "aws-sns",
        title: "Amazon SNS",
        recipe: RecipeFields {
            key_sig: "rsa-sha256|rsa-sha1 base64",
            key_from: "cert body:/SigningCertURL hosts=sns.{region}.amazonaws.com,sns.{region}.amazonaws.com.cn",
            sig: "body:/Signature",
            over: "{n:Message}{n:MessageId}{n:Subject}{n:SubscribeURL}{n:Timestamp}{n:Token}{n:TopicArn}{n:Type}",
            check: "/TopicArn == app_id",
            event_type: "/Type",
            id: "/MessageId",
            handshake: "visit sns",
            ..NONE
        },
        note: "The app id is the ARN of the topic: SNS signs the messages of all topics with the same keys. Raw message delivery is unsigned; leave it off.",
    },
    Kind {
        name: "aws-eventbridge",
        title: "Amazon EventBridge API destination",
        recipe: RecipeFields { token: "X-Api-Key", event_type: "/detail-type", id: "/id", ..NONE },
        note: "Use a connection of the type API key with the header X-Api-Key.",
    },
    Kind {
        name: "azure-event-grid",
        title: "Azure Event Grid",
        recipe: RecipeFields {
            token: "query:key",
            each: "/*",
            event_type: "/eventType",
            id: "/id",
            handshake: "post-echo eventgrid; options",
            ..NONE
        },
        note: "Put the secret into the parameter key of the subscription's URL.",
    },
    Kind {
        name: "google-pubsub",
        title: "Google Pub/Sub push",
        recipe: RecipeFields {
            jwt: "RS256 iss=https://accounts.google.com,accounts.google.com aud=audience email=app_id exp",
            key_from: "jwks https://www.googleapis.com/oauth2/v3/certs",
            sig: "Authorization prefix='Bearer '",
            id: "/message/messageId",
            ..NONE
        },
        note: "The app id is the e-mail address of the service account. The token does not sign the body.",
    },
    Kind {
        name: "microsoft-graph",
        title: "Microsoft Graph",
        recipe: RecipeFields {
            token: "body:/clientState",
            each: "/value/*",
            event_type: "/changeType",
            handshake: "post-echo msgraph",
            ok: "202",
            ..NONE
        },
        note: "The secret is the clientState of the subscription; it arrives in each notification.",
    },
];
