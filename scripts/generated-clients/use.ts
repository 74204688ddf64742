// Uses the types that openapi-typescript made: creates an endpoint, publishes, lists deliveries, and tells a refusal by its type.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./everhook.d.ts";

type Status = components["schemas"]["DeliveryStatus"];

const headers = { authorization: `Bearer ${process.env.EVERHOOK_KEY}` };
const client = createClient<paths>({ baseUrl: process.env.EVERHOOK_URL, headers });

const wanted = { url: "https://nowhere.invalid/hook", event_types: ["order.*"], uid: "shop", ordering: "strict" } as const;
const endpoint = await client.POST("/v1/endpoints", { body: { ...wanted, event_types: [...wanted.event_types] } });
assert(endpoint.data, JSON.stringify(endpoint.error));
assert.equal(endpoint.data.ordering, "strict");
assert.equal(endpoint.data.effective_timeout_ms, 15_000);

const taken = await client.POST("/v1/endpoints", { body: { ...wanted, event_types: [...wanted.event_types] } });
assert.equal(taken.error?.type, "/docs/problems/uid-taken");

// What the compiler must refuse: creations without what they need. Never run; an error that is not there is one of the compiler's.
export async function incomplete() {
  // @ts-expect-error
  await client.POST("/v1/endpoints", { body: {} });
  // @ts-expect-error
  await client.POST("/v1/applications", { body: {} });
  // @ts-expect-error
  await client.POST("/v1/organizations", { body: {} });
  // @ts-expect-error
  await client.POST("/v1/retry-schedules", { body: { name: "x" } });
  // @ts-expect-error
  await client.POST("/v1/event-types", { body: {} });
  // @ts-expect-error
  await client.POST("/v1/sources", { body: { name: "x" } });
  // A change needs none of it.
  await client.PUT("/v1/endpoints/{id}", { params: { path: { id: "shop" } }, body: {} });
}

const receipt = await client.POST("/v1/events", { body: { type: "order.paid", data: { order: 1 } } });
assert(receipt.data, JSON.stringify(receipt.error));
assert.equal(receipt.data.deliveries, 1);

const refused = await client.POST("/v1/events", { body: { type: "not a type", data: 1 } });
assert(refused.error);
assert.equal(refused.error.status, 422);
assert.equal(refused.error.type, "/docs/problems/invalid-fields");
assert.deepEqual(refused.error.errors?.map((error) => error.field), ["type"]);

async function attempted() {
  for (let round = 0; round < 100; round += 1) {
    const page = await client.GET("/v1/deliveries", { params: { header: { "X-Organization": "default" }, query: { limit: 10 } } });
    assert(page.data, JSON.stringify(page.error));
    const [delivery] = page.data.data;
    if (delivery && delivery.attempt_count > 0) return delivery;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("no attempt was made");
}

const delivery = await attempted();
const waiting: Status = "waiting";
assert.equal(delivery.status, waiting);
assert.equal(delivery.event_id, receipt.data.id);
assert(delivery.last_error !== null && delivery.ended_at === null);
console.log("the generated TypeScript client works");
