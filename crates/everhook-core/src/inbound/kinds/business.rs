//! Work, documents, content and forms.

use super::{Kind, NONE, RecipeFields};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "linear",
        title: "Linear",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Linear-Signature",
            ts: "body:/webhookTimestamp ms 1m",
            over: "{body}",
            event_type: "H:Linear-Event",
            id: "H:Linear-Delivery",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "notion",
        title: "Notion",
        recipe: RecipeFields {
            mac: "sha256 hex",
            key_format: "captured",
            sig: "X-Notion-Signature prefix=sha256=",
            over: "{body}",
            event_type: "/type",
            id: "/id",
            handshake: "capture /verification_token",
            ..NONE
        },
        note: "The secret comes with the handshake: call POST /v1/sources/{id}/await-handshake, then create the webhook, and paste the token back at Notion. Not verified against the provider: the pointer of the id.",
    },
    Kind {
        name: "asana",
        title: "Asana",
        recipe: RecipeFields {
            mac: "sha256 hex",
            key_format: "captured",
            sig: "X-Hook-Signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/resource/resource_type+'.'+/action|/action",
            user: "/user/gid",
            handshake: "header-echo X-Hook-Secret",
            ..NONE
        },
        note: "The secret comes with the handshake: call POST /v1/sources/{id}/await-handshake, then create the webhook.",
    },
    Kind {
        name: "trello",
        title: "Trello",
        recipe: RecipeFields {
            mac: "sha1 base64",
            sig: "X-Trello-Webhook",
            over: "{body}{url}",
            event_type: "/action/type",
            id: "/action/id",
            handshake: "head-ok",
            ..NONE
        },
        note: "Signs the URL: set public_url as it was given to Trello. Not verified against the provider: the pointer of the id.",
    },
    Kind {
        name: "hubspot",
        title: "HubSpot (v3)",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-HubSpot-Signature-v3",
            ts: "X-HubSpot-Request-Timestamp ms 5m",
            over: "{method}{url}{body}{ts}",
            url: "hubspot",
            each: "/*",
            event_type: "/subscriptionType",
            id: "/eventId",
            user: "/portalId",
            ..NONE
        },
        note: "Signs the URL: set public_url as it is at HubSpot.",
    },
    Kind {
        name: "hubspot-v2",
        title: "HubSpot (v2)",
        recipe: RecipeFields {
            mac: "plain-sha256 hex",
            sig: "X-HubSpot-Signature",
            over: "{secret}{method}{url}{body}",
            each: "/*",
            event_type: "/subscriptionType",
            id: "/eventId",
            user: "/portalId",
            ..NONE
        },
        note: "Signs the URL: set public_url as it is at HubSpot.",
    },
    Kind {
        name: "hubspot-v1",
        title: "HubSpot (v1)",
        recipe: RecipeFields {
            mac: "plain-sha256 hex",
            sig: "X-HubSpot-Signature",
            over: "{secret}{body}",
            each: "/*",
            event_type: "/subscriptionType",
            id: "/eventId",
            user: "/portalId",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "salesforce",
        title: "Salesforce outbound messages",
        recipe: RecipeFields { token: "path", body: "any", ok: "200 soap-ack", ..NONE },
        note: "Unsigned. Put the secret behind the source in the URL.",
    },
    Kind {
        name: "monday",
        title: "monday.com",
        recipe: RecipeFields { jwt: "HS256 exp", sig: "Authorization", event_type: "/event/type", handshake: "post-echo monday", ..NONE },
        note: "The token does not sign the body.",
    },
    Kind {
        name: "calendly",
        title: "Calendly",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Calendly-Webhook-Signature kv=, v1",
            ts: "kv:t s 3m",
            over: "{ts}.{body}",
            event_type: "/event",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "typeform",
        title: "Typeform",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "Typeform-Signature prefix=sha256=",
            over: "{body}",
            event_type: "/event_type",
            id: "/event_id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "tally",
        title: "Tally",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "Tally-Signature",
            over: "{body}",
            event_type: "/eventType",
            id: "/eventId",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "docusign",
        title: "DocuSign Connect",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-DocuSign-Signature-1..100",
            over: "{body}",
            body: "any",
            event_type: "/event",
            max_body: "16M",
            ..NONE
        },
        note: "Sends JSON or XML. Not verified against the provider: the pointer of the type.",
    },
    Kind {
        name: "dropbox",
        title: "Dropbox",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Dropbox-Signature",
            over: "{body}",
            handshake: "get-echo-text challenge",
            ..NONE
        },
        note: "Says only that something changed.",
    },
    Kind {
        name: "box",
        title: "Box",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "BOX-SIGNATURE-PRIMARY|BOX-SIGNATURE-SECONDARY",
            ts: "BOX-DELIVERY-TIMESTAMP rfc3339 10m",
            over: "{body}{ts}",
            event_type: "/trigger",
            id: "H:BOX-DELIVERY-ID",
            ..NONE
        },
        note: "Give both keys, the primary and the secondary. Not verified against the provider: the pointer of the type.",
    },
    Kind {
        name: "airtable",
        title: "Airtable",
        recipe: RecipeFields {
            mac: "sha256 hex",
            key_format: "base64",
            sig: "X-Airtable-Content-MAC prefix=hmac-sha256=",
            over: "{body}",
            ..NONE
        },
        note: "The key is base64. Says only that something changed.",
    },
    Kind {
        name: "webflow",
        title: "Webflow",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "x-webflow-signature",
            ts: "x-webflow-timestamp ms 5m",
            over: "{ts}:{body}",
            event_type: "/triggerType",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "wix",
        title: "Wix",
        recipe: RecipeFields { jwt: "RS256", body: "jwt", ..NONE },
        note: "The key is the app's public key. The body is a token.",
    },
    Kind {
        name: "mux",
        title: "Mux",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Mux-Signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "persona",
        title: "Persona",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Persona-Signature kv=, v1",
            ts: "kv:t s",
            over: "{ts}.{body}",
            event_type: "/data/attributes/name",
            id: "/data/id",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "scrapfly",
        title: "Scrapfly",
        recipe: RecipeFields { mac: "sha256 hex", sig: "X-Scrapfly-Webhook-Signature", over: "{body}", body: "any", ..NONE },
        note: "",
    },
];
