// Verifies captured requests with the official Node package: NODE_PATH=<prefix>/node_modules node verify.cjs captured-requests.json
const { readFileSync } = require("node:fs");
const { Webhook } = require("standardwebhooks");

function isValid(secret, body, headers) {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

const STRANGER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
let faults = 0;
for (const { name, secrets, headers, body } of cases) {
  const checks = secrets.map((secret, n) => [`secret ${n + 1} verifies`, isValid(secret, body, headers)]);
  checks.push(["a changed body does not", !isValid(secrets[0], `${body} `, headers)]);
  checks.push(["a stranger's secret does not", !isValid(STRANGER, body, headers)]);
  for (const [check, holds] of checks) {
    console.log(`${holds ? "ok" : "FAILED"}  node  ${name}: ${check}`);
    if (!holds) faults += 1;
  }
}
process.exit(faults > 0 || cases.length === 0 ? 1 : 0);
