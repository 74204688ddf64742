//! Messages, mail, telephony and social networks.

use super::{Kind, NONE, RecipeFields};

/// What all of Meta's products send: up to 1,000 updates and 3 MB in one request.
const META: RecipeFields<'static> = RecipeFields {
    mac: "sha256 hex",
    sig: "X-Hub-Signature-256 prefix=sha256=",
    over: "{body}",
    each: "/entry/*",
    event_type: "root:/object+'.'+/changes/0/field|root:/object",
    user: "/id",
    handshake: "get-echo-text hub.challenge token=hub.verify_token",
    max_body: "3M",
    ..NONE
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "slack",
        title: "Slack",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Slack-Signature prefix=v0=",
            ts: "X-Slack-Request-Timestamp s 5m",
            over: "v0:{ts}:{body}",
            body: "any",
            event_type: "/event/type|/type",
            id: "/event_id",
            handshake: "post-echo slack",
            ..NONE
        },
        note: "Commands and interactions arrive as forms and are kept as they are. Not verified against the provider: the pointers of type and id.",
    },
    Kind {
        name: "twilio",
        title: "Twilio",
        recipe: RecipeFields {
            mac: "sha1 base64",
            sig: "X-Twilio-Signature",
            over: "{url}{form}",
            url: "port body_hash=bodySHA256",
            body: "form",
            id: "/MessageSid|/CallSid",
            ..NONE
        },
        note: "Signs the URL: set public_url as it is at Twilio.",
    },
    Kind {
        name: "sendgrid",
        title: "SendGrid",
        recipe: RecipeFields {
            key_sig: "ecdsa-p256 base64",
            sig: "X-Twilio-Email-Event-Webhook-Signature",
            ts: "X-Twilio-Email-Event-Webhook-Timestamp s",
            over: "{ts}{body}",
            each: "/*",
            event_type: "/event",
            id: "/sg_event_id",
            ..NONE
        },
        note: "The key is the public one that SendGrid shows. The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "mailgun",
        title: "Mailgun",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "body:/signature/signature",
            ts: "body:/signature/timestamp s 12h",
            over: "{ts}{b:/signature/token}",
            event_type: "/event-data/event",
            id: "/signature/token",
            ..NONE
        },
        note: "The body is not signed, only a timestamp and a token: dedupe by id, which is the token, so that a request cannot be repeated. The timestamp may be 12 hours off, because the provider sends again for hours.",
    },
    Kind {
        name: "mandrill",
        title: "Mandrill",
        recipe: RecipeFields {
            mac: "sha1 base64",
            sig: "X-Mandrill-Signature",
            over: "{url}{form}",
            body: "form",
            handshake: "head-ok",
            ..NONE
        },
        note: "Signs the URL: set public_url as it is at Mandrill.",
    },
    Kind {
        name: "postmark",
        title: "Postmark",
        recipe: RecipeFields { token: "basic", event_type: "/RecordType", ..NONE },
        note: "The secret is user:password, written into the URL at Postmark. Not verified against the provider: the pointer of the type.",
    },
    Kind {
        name: "mailchimp",
        title: "Mailchimp",
        recipe: RecipeFields { token: "query:key", body: "form", event_type: "/type", handshake: "get-compare any", ..NONE },
        note: "Put the secret into the parameter key of the URL.",
    },
    Kind {
        name: "customer-io",
        title: "Customer.io",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-CIO-Signature",
            ts: "X-CIO-Timestamp s",
            over: "v0:{ts}:{body}",
            id: "/event_id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "knock",
        title: "Knock",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "x-knock-signature kv=, s",
            ts: "kv:t ms",
            over: "{ts}.{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "nylas",
        title: "Nylas",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "x-nylas-signature",
            over: "{body}",
            event_type: "/type",
            id: "/id",
            handshake: "get-echo-text challenge",
            ..NONE
        },
        note: "Have the provider send bodies without compression: the compressed bytes are signed.",
    },
    Kind {
        name: "telnyx",
        title: "Telnyx",
        recipe: RecipeFields {
            key_sig: "ed25519 base64",
            key_format: "base64",
            sig: "telnyx-signature-ed25519",
            ts: "telnyx-timestamp s 5m",
            over: "{ts}|{body}",
            event_type: "/data/event_type",
            id: "/data/id",
            ..NONE
        },
        note: "The key is the public one that Telnyx shows.",
    },
    Kind {
        name: "pusher",
        title: "Pusher Channels",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Pusher-Signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/name",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "line",
        title: "LINE",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-Line-Signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/type",
            id: "/webhookEventId",
            user: "/source/userId",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "zoom",
        title: "Zoom",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "x-zm-signature prefix=v0=",
            ts: "x-zm-request-timestamp s 5m",
            over: "v0:{ts}:{body}",
            event_type: "/event",
            handshake: "post-hmac zoom",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "discord",
        title: "Discord",
        recipe: RecipeFields {
            key_sig: "ed25519 hex",
            key_format: "hex",
            sig: "X-Signature-Ed25519",
            ts: "X-Signature-Timestamp s",
            over: "{ts}{body}",
            event_type: "/event/type|/type",
            handshake: "ping discord",
            ok: "204",
            ..NONE
        },
        note: "The key is the application's public key, hexadecimal. The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "telegram",
        title: "Telegram",
        recipe: RecipeFields { token: "X-Telegram-Bot-Api-Secret-Token", id: "/update_id", ..NONE },
        note: "The secret is the secret_token that the webhook was set with.",
    },
    Kind { name: "meta", title: "Meta (Facebook)", recipe: META, note: "" },
    Kind { name: "whatsapp", title: "WhatsApp Business", recipe: META, note: "" },
    Kind { name: "instagram", title: "Instagram", recipe: META, note: "" },
    Kind {
        name: "linkedin",
        title: "LinkedIn",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-LI-Signature",
            over: "hmacsha256={body}",
            event_type: "/type",
            id: "/notificationId",
            handshake: "get-hmac linkedin",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "x",
        title: "X",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "x-twitter-webhooks-signature prefix=sha256=",
            over: "{body}",
            user: "/for_user_id",
            handshake: "get-hmac x",
            ..NONE
        },
        note: "The secret is the consumer secret. The type of an event is a member's name and is not read.",
    },
    Kind {
        name: "twitch",
        title: "Twitch",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Twitch-Eventsub-Message-Signature prefix=sha256=",
            ts: "Twitch-Eventsub-Message-Timestamp rfc3339 10m",
            over: "{id}{ts}{body}",
            event_type: "/subscription/type",
            id: "H:Twitch-Eventsub-Message-Id",
            handshake: "post-echo twitch",
            ok: "204",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "intercom",
        title: "Intercom",
        recipe: RecipeFields {
            mac: "sha1 hex",
            sig: "X-Hub-Signature prefix=sha1=",
            over: "{body}",
            event_type: "/topic",
            id: "/id",
            handshake: "head-ok",
            ..NONE
        },
        note: "Not verified against the provider: the pointer of the id, and the HEAD request.",
    },
    Kind {
        name: "zendesk",
        title: "Zendesk",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-Zendesk-Webhook-Signature",
            ts: "X-Zendesk-Webhook-Signature-Timestamp rfc3339 5m",
            over: "{ts}{body}",
            body: "any",
            event_type: "/type",
            id: "H:X-Zendesk-Webhook-Invocation-Id",
            ..NONE
        },
        note: "Not verified against the provider: the header of the id.",
    },
    Kind {
        name: "attentive",
        title: "Attentive",
        recipe: RecipeFields { mac: "sha256 hex", sig: "x-attentive-hmac-sha256", over: "{body}", event_type: "/type", ..NONE },
        note: "",
    },
    Kind {
        name: "elevenlabs",
        title: "ElevenLabs",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "ElevenLabs-Signature kv=, v0",
            ts: "kv:t s 30m",
            over: "{ts}.{body}",
            event_type: "/type",
            ..NONE
        },
        note: "",
    },
];
