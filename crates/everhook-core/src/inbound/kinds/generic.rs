//! Kinds that are no single provider: Standard Webhooks and the services that send it, and the kinds whose fields a source brings itself.

use super::{Kind, NONE, RecipeFields};

/// Standard Webhooks, under both names of its headers.
const STANDARD: RecipeFields<'static> = RecipeFields {
    mac: "sha256 base64",
    key_format: "whsec",
    sig: "webhook-signature|svix-signature list=' ' v1,",
    ts: "webhook-timestamp|svix-timestamp s 5m",
    over: "{id}.{ts}.{body}",
    event_type: "/type",
    id: "H:webhook-id|H:svix-id",
    ..NONE
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "custom",
        title: "Custom recipe",
        recipe: NONE,
        note: "The source brings its own recipe, with the same fields as the rows of this table.",
    },
    Kind {
        name: "hmac",
        title: "HMAC of the body",
        recipe: RecipeFields { mac: "sha256 hex", sig: "X-Signature", over: "{body}", body: "any", ..NONE },
        note: "The short form of a custom recipe: the fields header (required), algorithm, encoding and prefix.",
    },
    Kind {
        name: "none",
        title: "Unsigned",
        recipe: RecipeFields { body: "any", ..NONE },
        note: "Anyone who knows the URL can send: list the addresses that may, and keep the URL to yourself.",
    },
    Kind {
        name: "basic",
        title: "User and password",
        recipe: RecipeFields { token: "basic", body: "any", ..NONE },
        note: "The secret is user:password, as HTTP's basic authentication has it.",
    },
    Kind {
        name: "token",
        title: "Token in a header",
        recipe: RecipeFields { token: "X-Webhook-Token", body: "any", ..NONE },
        note: "The secret arrives in the header X-Webhook-Token.",
    },
    Kind {
        name: "cloudevents",
        title: "CloudEvents over HTTP",
        recipe: RecipeFields {
            token: "query:access_token",
            body: "any",
            event_type: "H:ce-type|/type",
            id: "H:ce-id|/id",
            handshake: "options",
            ..NONE
        },
        note: "The secret is a token of your choice, which senders add to the URL as the parameter access_token.",
    },
    Kind { name: "standard", title: "Standard Webhooks", recipe: STANDARD, note: "" },
    Kind { name: "svix", title: "Svix", recipe: STANDARD, note: "" },
    Kind { name: "anthropic", title: "Anthropic", recipe: STANDARD, note: "" },
    Kind { name: "clerk", title: "Clerk", recipe: STANDARD, note: "" },
    Kind { name: "etsy", title: "Etsy", recipe: STANDARD, note: "" },
    Kind { name: "lithic", title: "Lithic", recipe: STANDARD, note: "" },
    Kind { name: "openai", title: "OpenAI", recipe: STANDARD, note: "" },
    Kind { name: "replicate", title: "Replicate", recipe: STANDARD, note: "" },
    Kind { name: "resend", title: "Resend", recipe: STANDARD, note: "" },
    Kind { name: "brex", title: "Brex", recipe: STANDARD, note: "" },
    Kind {
        name: "supabase",
        title: "Supabase auth hooks",
        recipe: STANDARD,
        note: "Paste the secret with its prefix v1,whsec_ or without.",
    },
    Kind {
        name: "polar-sh",
        title: "Polar.sh",
        recipe: RecipeFields { key_format: "raw", ..STANDARD },
        note: "The key is the text of the secret itself, not its base64.",
    },
    Kind {
        name: "gitlab-signed",
        title: "GitLab (signing token)",
        recipe: RecipeFields { event_type: "H:X-Gitlab-Event", ..STANDARD },
        note: "GitLab 19.0 and later. Not verified against the provider: the header of the type.",
    },
];
