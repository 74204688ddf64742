// Messages as Amazon SNS signs them, judged by Amazon's own validator, and written down for the test of our recipe, which must judge the same bytes alike.
//
// Usage: NODE_PATH=<node_modules with sns-validator> node sns.cjs <file to write>
// The key and the certificate are made here. The validator fetches the certificate from the host that the message names: it is handed ours instead.

const crypto = require('crypto');
const fs = require('fs');
const https = require('https');
const os = require('os');
const path = require('path');
const { EventEmitter } = require('events');
const { execFileSync } = require('child_process');

const URL_OF_CERTIFICATE = 'https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem';
const TOPIC = 'arn:aws:sns:us-east-1:123456789012:orders';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sns-'));
const [keyFile, certificateFile] = ['key.pem', 'certificate.pem'].map((name) => path.join(folder, name));
execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', keyFile, '-out', certificateFile, '-days', '2', '-subj', '/CN=sns.amazonaws.com'], { stdio: 'ignore' });
const key = fs.readFileSync(keyFile);
const certificate = fs.readFileSync(certificateFile, 'utf8');
fs.rmSync(folder, { recursive: true });

// Before the validator is loaded, which keeps the function.
https.get = (options, answered) => {
  const response = new EventEmitter();
  response.statusCode = 200;
  answered(response);
  process.nextTick(() => { response.emit('data', Buffer.from(certificate)); response.emit('end'); });
  return new EventEmitter();
};
const MessageValidator = require('sns-validator');

// What is signed of each type, in the order of Amazon's documentation.
const NOTIFICATION = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'];
const CONFIRMATION = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];

function signed(message, version) {
  const names = message.Type === 'Notification' ? NOTIFICATION : CONFIRMATION;
  const text = names.filter((name) => name in message).map((name) => `${name}\n${message[name]}\n`).join('');
  const signature = crypto.createSign(version === '1' ? 'RSA-SHA1' : 'RSA-SHA256').update(text, 'utf8').sign(key, 'base64');
  return JSON.stringify({ ...message, SignatureVersion: version, Signature: signature, SigningCertURL: URL_OF_CERTIFICATE });
}

const base = { Type: 'Notification', MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324', TopicArn: TOPIC, Timestamp: new Date().toISOString() };
const messages = {
  'a notification': { ...base, Message: 'Hello, world', UnsubscribeURL: 'https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe' },
  'a notification with a subject': { ...base, Subject: 'My First Message', Message: '{"order":1}' },
  'a message of several lines, and of other alphabets': { ...base, Subject: 'für "alle"', Message: 'Zeile 1\nZeile 2\n日本語 \u{1f600}\t' },
  'a confirmation': { ...base, Type: 'SubscriptionConfirmation', Message: 'You have chosen to subscribe', Token: '2336412f37', SubscribeURL: 'https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription' },
};

const judged = (body) => new Promise((done) => new MessageValidator().validate(body, (error) => done(!error)));

// One letter of the message, inside the JSON, so that it stays JSON.
const changed = (body) => body.replace(/"MessageId":"2/, '"MessageId":"3');

(async () => {
  const cases = [];
  for (const [name, message] of Object.entries(messages)) {
    for (const version of ['1', '2']) {
      const body = signed(message, version);
      for (const [what, bytes, expected] of [['', body, true], [', one byte changed', changed(body), false]]) {
        const accepted = await judged(bytes);
        console.log(`${accepted === expected ? 'ok' : 'FAILED'}  sns-validator: ${name}, version ${version}${what}: ${accepted ? 'accepted' : 'refused'}`);
        if (accepted !== expected) process.exitCode = 1;
        cases.push({ name: `${name}, version ${version}${what}`, body: bytes, accepted });
      }
    }
  }
  fs.writeFileSync(process.argv[2], JSON.stringify({ topic: TOPIC, certificate, now: Math.floor(Date.now() / 1000), cases }));
})();
