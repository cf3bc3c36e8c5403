/** Both receivers against a server on this machine that plays Slack and Linear. */
import assert from "node:assert/strict"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { after, before, beforeEach, test } from "node:test"
import { Webhook } from "standardwebhooks"
import { toLinear } from "../src/Linear.ts"
import type { Notification } from "../src/Notification.ts"
import { makeReceiver } from "../src/Receiver.ts"
import { toSlack } from "../src/Slack.ts"

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
const PUBLIC = "https://slipway.example.com"

const listening = (server: Server) =>
  new Promise<string>((done) => server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)))

/** The posted requests, and the answers to the next ones. */
const posted: Array<{ readonly path: string; readonly authorization: string | undefined; readonly body: any }> = []
let answers: Array<{ readonly status: number; readonly body: string }> = []
const other = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    posted.push({
      path: request.url ?? "",
      authorization: request.headers.authorization,
      body: JSON.parse(Buffer.concat(chunks).toString())
    })
    const { body, status } = answers.shift() ?? { status: 200, body: `{"data":{"commentCreate":{"success":true}}}` }
    response.writeHead(status).end(body)
  })
})
let [base, slack, linear] = ["", "", ""]
const servers: Array<Server> = [other]

before(async () => {
  base = await listening(other)
  const [slackServer, linearServer] = [
    makeReceiver(SECRET, toSlack(`${base}/slack`, PUBLIC)),
    makeReceiver(SECRET, toLinear(`${base}/graphql`, "lin_api_key", PUBLIC))
  ]
  servers.push(slackServer, linearServer)
  slack = await listening(slackServer)
  linear = await listening(linearServer)
})
after(() => {
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})
beforeEach(() => {
  posted.length = 0
  answers = []
})

const notification = (more: Partial<Notification> = {}, metadata: Record<string, string> = { linear_issue: "ENG-42" }): Notification => ({
  id: "12",
  type: "approval.requested",
  data: { approval_id: "call-1", tool: "Run <!channel> `rm`" },
  sandbox: {
    id: "c_abcdefghijkl",
    title: "Fix *all* <https://evil.example|bugs>",
    status: "running",
    repos: [{ fullName: "acme/shop" }],
    metadata
  },
  ...more
})

let ids = 0
const deliver = async (url: string, event: unknown, { at = new Date(), id = `msg_${++ids}`, secret = SECRET, sent = "" } = {}) => {
  const body = JSON.stringify(event)
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": `${Math.floor(at.getTime() / 1000)}`,
    "webhook-signature": new Webhook(secret).sign(id, at, body)
  }
  return (await fetch(url, { method: "POST", body: sent || body, headers })).status
}

test("a request that is unsigned, old, changed or too large is refused, and nothing is posted", async () => {
  assert.equal((await fetch(slack, { method: "POST", body: "{}" })).status, 401)
  assert.equal(await deliver(slack, notification(), { secret: `whsec_${Buffer.alloc(32, 8).toString("base64")}` }), 401)
  assert.equal(await deliver(slack, notification(), { at: new Date(Date.now() - 6 * 60_000) }), 401)
  assert.equal(await deliver(slack, notification(), { sent: `{"more":1}` }), 401)
  assert.ok([413, 0].includes(await deliver(slack, "x".repeat(2_000_000)).catch(() => 0)))
  assert.deepEqual(posted, [])
})

test("Slack gets a message of blocks, in which nothing of the title is markup", async () => {
  assert.equal(await deliver(slack, notification()), 204)
  const [message] = posted
  assert(message)
  assert.equal(message.path, "/slack")
  const [header, section, context, actions] = message.body.blocks
  assert.deepEqual(header.text, { type: "plain_text", text: "Fix *all* <https://evil.example|bugs>", emoji: false })
  assert.equal(section.text.text, "The agent asks for an approval: Run &lt;!channel&gt; `rm`.")
  assert.equal(context.elements[0].text, "running · acme/shop")
  assert.equal(actions.elements[0].url, `${PUBLIC}/sandboxes/c_abcdefghijkl`)
  assert.ok(!message.body.text.includes("<"))
})

test("Linear gets a comment at the issue that the metadata name, and none without one", async () => {
  assert.equal(await deliver(linear, notification()), 204)
  assert.equal(await deliver(linear, notification({}, {})), 204)
  assert.equal(posted.length, 1)
  const [comment] = posted
  assert.equal(comment?.authorization, "lin_api_key")
  assert.equal(comment?.body.variables.input.issueId, "ENG-42")
  assert.match(comment?.body.variables.input.body, /^\*\*Fix \\\*all\\\* \\<https:\/\/evil\.example\\\|bugs\\>\*\*/u)
})

test("a notification that comes twice is posted once", async () => {
  for (const _ of [1, 2]) assert.equal(await deliver(slack, notification(), { id: "msg_twice" }), 204)
  assert.equal(posted.length, 1)
})

test("where posting fails, Slipway is told to send the notification again", async () => {
  answers = [{ status: 503, body: "" }]
  assert.equal(await deliver(slack, notification(), { id: "msg_again" }), 502)
  assert.equal(await deliver(slack, notification(), { id: "msg_again" }), 204)
  answers = [{ status: 200, body: `{"errors":[{"message":"no"}]}` }]
  assert.equal(await deliver(linear, notification(), { id: "msg_other" }), 502)
  assert.equal(await deliver(linear, notification(), { id: "msg_other" }), 204)
  assert.equal(posted.length, 4)
})

test("an event without news for people, or of an unknown type, is accepted and posted nowhere", async () => {
  const unknown = ["pull_request.updated", "something.new"]
  for (const type of unknown) assert.equal(await deliver(slack, notification({ type, data: { action_state: "publishing" } })), 204)
  assert.deepEqual(posted, [])
})
