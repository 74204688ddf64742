//! Payments, shops and finance.

use super::{Kind, NONE, RecipeFields};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "stripe",
        title: "Stripe",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Stripe-Signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "The whole text whsec_… is the key.",
    },
    Kind {
        name: "shopify",
        title: "Shopify",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-Shopify-Hmac-Sha256",
            over: "{body}",
            event_type: "H:X-Shopify-Topic",
            id: "H:X-Shopify-Webhook-Id",
            user: "H:X-Shopify-Shop-Domain",
            ..NONE
        },
        note: "Not verified against the provider: the header of the id.",
    },
    Kind {
        name: "paypal",
        title: "PayPal",
        recipe: RecipeFields {
            key_sig: "rsa-sha256 base64",
            key_from: "cert PAYPAL-CERT-URL hosts=api.paypal.com,api.sandbox.paypal.com,api-m.paypal.com,api-m.sandbox.paypal.com",
            sig: "PAYPAL-TRANSMISSION-SIG",
            over: "{h:PAYPAL-TRANSMISSION-ID}|{h:PAYPAL-TRANSMISSION-TIME}|{app_id}|{crc32}",
            event_type: "/event_type",
            id: "/id",
            ..NONE
        },
        note: "The app id is the webhook's id. The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "square",
        title: "Square",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "x-square-hmacsha256-signature",
            over: "{url}{body}",
            event_type: "/type",
            id: "/event_id",
            ..NONE
        },
        note: "Signs the URL: set public_url as it is in the dashboard. Not verified against the provider: the pointer of the id.",
    },
    Kind {
        name: "adyen",
        title: "Adyen payments",
        recipe: RecipeFields {
            mac: "sha256 base64",
            key_format: "hex",
            sig: "body:/additionalData/hmacSignature",
            over: "{b:/pspReference}:{b:/originalReference}:{b:/merchantAccountCode}:{b:/merchantReference}:{b:/amount/value}:{b:/amount/currency}:{b:/eventCode}:{b:/success}",
            each: "/notificationItems/*/NotificationRequestItem",
            event_type: "/eventCode",
            id: "/pspReference+':'+/eventCode",
            ok: "200 text [accepted]",
            ..NONE
        },
        note: "The key is hexadecimal. Each item carries its own signature.",
    },
    Kind {
        name: "adyen-platform",
        title: "Adyen banking and management",
        recipe: RecipeFields {
            mac: "sha256 base64",
            key_format: "hex",
            sig: "HmacSignature",
            over: "{body}",
            event_type: "/type",
            ok: "200 text [accepted]",
            ..NONE
        },
        note: "The key is hexadecimal.",
    },
    Kind {
        name: "braintree",
        title: "Braintree",
        recipe: RecipeFields {
            mac: "sha1 hex",
            key_format: "sha1",
            sig: "form:bt_signature list=& after=|",
            over: "{f:bt_payload}{or}{f:bt_payload}\n",
            body: "form",
            handshake: "get-hmac braintree",
            ..NONE
        },
        note: "The secret is the private key, the app id the public one. The notification is XML within the form.",
    },
    Kind {
        name: "razorpay",
        title: "Razorpay",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Razorpay-Signature",
            over: "{body}",
            event_type: "/event",
            id: "H:x-razorpay-event-id",
            ..NONE
        },
        note: "Not verified against the provider: the header of the id.",
    },
    Kind {
        name: "paddle",
        title: "Paddle",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Paddle-Signature kv=; h1",
            ts: "kv:ts s 5m",
            over: "{ts}:{body}",
            event_type: "/event_type",
            id: "/event_id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "lemon-squeezy",
        title: "Lemon Squeezy",
        recipe: RecipeFields { mac: "sha256 hex", sig: "X-Signature", over: "{body}", event_type: "/meta/event_name", ..NONE },
        note: "Not verified against the provider: the pointer of the type.",
    },
    Kind {
        name: "chargebee",
        title: "Chargebee",
        recipe: RecipeFields { token: "basic", event_type: "/event_type", id: "/id", ..NONE },
        note: "The secret is user:password.",
    },
    Kind {
        name: "paystack",
        title: "Paystack",
        recipe: RecipeFields { mac: "sha512 hex", sig: "x-paystack-signature", over: "{body}", event_type: "/event", ..NONE },
        note: "",
    },
    Kind {
        name: "gocardless",
        title: "GoCardless",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Webhook-Signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/resource_type+'.'+/action",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "mollie",
        title: "Mollie (signed events)",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Mollie-Signature prefix=sha256=",
            over: "{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "revolut",
        title: "Revolut Business",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Revolut-Signature list=, v1=",
            ts: "Revolut-Request-Timestamp ms",
            over: "v1.{ts}.{body}",
            event_type: "/event",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "airwallex",
        title: "Airwallex",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "x-signature",
            over: "{h:x-timestamp}{body}",
            event_type: "/name",
            id: "/id",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "fastspring",
        title: "FastSpring",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-FS-Signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "fintoc",
        title: "Fintoc",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Fintoc-Signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "recharge",
        title: "Recharge",
        recipe: RecipeFields {
            mac: "plain-sha256 hex",
            sig: "X-Recharge-Hmac-Sha256",
            over: "{secret}{body}",
            event_type: "H:X-Recharge-Topic",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "orb",
        title: "Orb",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Orb-Signature prefix=v1=",
            over: "v1:{h:X-Orb-Timestamp}:{body}",
            event_type: "/type",
            id: "/id",
            ..NONE
        },
        note: "The provider names no age up to which a request is valid, so that none is judged.",
    },
    Kind {
        name: "woocommerce",
        title: "WooCommerce",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-WC-Webhook-Signature",
            over: "{body}",
            event_type: "H:X-WC-Webhook-Topic",
            id: "H:X-WC-Webhook-Delivery-ID",
            handshake: "ping woocommerce",
            ..NONE
        },
        note: "Not verified against the provider: the unsigned ping with webhook_id alone.",
    },
    Kind {
        name: "picqer",
        title: "Picqer",
        recipe: RecipeFields { mac: "sha256 base64", sig: "X-Picqer-Signature", over: "{body}", event_type: "/event", ..NONE },
        note: "",
    },
    Kind {
        name: "tiktok-shop",
        title: "TikTok Shop",
        recipe: RecipeFields { mac: "sha256 hex", sig: "Authorization", over: "{app_id}{body}", event_type: "/type", ..NONE },
        note: "The app id is the app key.",
    },
    Kind {
        name: "xero",
        title: "Xero",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "x-xero-signature",
            over: "{body}",
            each: "/events/*",
            event_type: "/eventCategory+'.'+/eventType",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "quickbooks",
        title: "QuickBooks",
        recipe: RecipeFields { mac: "sha256 base64", sig: "intuit-signature", over: "{body}", ..NONE },
        note: "A request has one of two shapes (eventNotifications, or an array of CloudEvents) and stays one event.",
    },
    Kind {
        name: "alchemy",
        title: "Alchemy",
        recipe: RecipeFields { mac: "sha256 hex", sig: "X-Alchemy-Signature", over: "{body}", event_type: "/type", id: "/id", ..NONE },
        note: "",
    },
    Kind {
        name: "uber",
        title: "Uber",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Uber-Signature",
            over: "{body}",
            event_type: "/event_type",
            id: "/event_id",
            ..NONE
        },
        note: "",
    },
];
