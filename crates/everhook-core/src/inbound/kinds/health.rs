//! Health and fitness. Most say only that something changed; the data is fetched afterwards.

use super::{Kind, NONE, RecipeFields};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "garmin",
        title: "Garmin Health",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Garmin-Signature",
            over: "{body}",
            require: "if_present",
            each: "/{key}/*",
            event_type: "key|path",
            id: "key+':'+/userId+':'+/changeTimeInSeconds",
            user: "/userId",
            max_body: "16M",
            ..NONE
        },
        note: "Unsigned: list the addresses that may send. Where a secret is set and a request is signed, the signature must be right. A corrected summary has the id of the first, so that summaries have none here: dedupe by body, and not at all for deregistrations.",
    },
    Kind {
        name: "strava",
        title: "Strava",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-Strava-Signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            require: "if_present",
            check: "/object_type in activity,athlete; /aspect_type in create,update,delete; /subscription_id = subscription_id",
            event_type: "/object_type+'.'+/aspect_type",
            user: "/owner_id",
            handshake: "get-echo-json hub.challenge token=hub.verify_token",
            ..NONE
        },
        note: "Unsigned by its documentation. Where a secret is set and a request is signed, the signature must be right. Set subscription_id, which every event names.",
    },
    Kind {
        name: "fitbit",
        title: "Fitbit",
        recipe: RecipeFields {
            mac: "sha1 base64",
            key_format: "raw+&",
            sig: "X-Fitbit-Signature",
            over: "{body}",
            each: "/*",
            event_type: "/collectionType",
            user: "/ownerId",
            handshake: "get-compare verify",
            ok: "204",
            ..NONE
        },
        note: "The verify token is the subscriber's verification code.",
    },
    Kind {
        name: "oura",
        title: "Oura",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "x-oura-signature",
            over: "{h:x-oura-timestamp}{body}",
            event_type: "/data_type+'.'+/event_type|/data_type",
            user: "/user_id",
            handshake: "get-echo-json challenge token=verification_token",
            ..NONE
        },
        note: "Its timestamp is signed; its unit and its age are not known, so that none is judged.",
    },
    Kind {
        name: "whoop",
        title: "WHOOP",
        recipe: RecipeFields {
            mac: "sha256 base64",
            sig: "X-WHOOP-Signature",
            ts: "X-WHOOP-Signature-Timestamp ms 5m",
            over: "{ts}{body}",
            event_type: "/type",
            id: "/trace_id",
            user: "/user_id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "polar",
        title: "Polar AccessLink",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "Polar-Webhook-Signature",
            over: "{body}",
            event_type: "/event",
            user: "/user_id",
            handshake: "ping polar",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "suunto",
        title: "Suunto",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "X-HMAC-SHA256-Signature",
            over: "{body}",
            event_type: "/type",
            user: "/username",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "terra",
        title: "Terra",
        recipe: RecipeFields {
            mac: "sha256 hex",
            sig: "terra-signature kv=, v1",
            ts: "kv:t s 5m",
            over: "{ts}.{body}",
            event_type: "/type",
            user: "/user/user_id",
            ..NONE
        },
        note: "",
    },
    Kind {
        name: "withings",
        title: "Withings",
        recipe: RecipeFields { token: "path", body: "form", event_type: "/appli", user: "/userid", handshake: "head-ok", ..NONE },
        note: "Unsigned. Put the secret behind the source in the URL.",
    },
    Kind {
        name: "google-health",
        title: "Google Health",
        recipe: RecipeFields { token: "Authorization prefix='Bearer '", event_type: "/data/dataType", ..NONE },
        note: "The token is no signature. Not verified against the provider: the shape of its bodies.",
    },
];
