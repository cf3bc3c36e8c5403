/** Amazon Bedrock as its documents describe it, for tests: it checks signatures by AWS's own library, and streams frames. */
import { EventStreamCodec } from "@smithy/core/event-streams"
import { SignatureV4 } from "@smithy/signature-v4"
import { createHash, createHmac } from "node:crypto"
import type { Asked } from "./Provider.ts"

export interface Account {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

export const ACCOUNT: Account = {
  accessKeyId: "AKIDCANARY0001",
  secretAccessKey: "canary/secret+of/aws0123456789abcdefABCD",
  sessionToken: "canary//session+token/0123456789abcdefghijklmnopqrstuvwxyz=="
}

export const variables = ({ accessKeyId, secretAccessKey, sessionToken }: Account) => ({
  AWS_ACCESS_KEY_ID: accessKeyId,
  AWS_SECRET_ACCESS_KEY: secretAccessKey,
  AWS_SESSION_TOKEN: sessionToken
})

class Sha256 {
  readonly #hash

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined
      ? createHash("sha256")
      : createHmac("sha256", typeof secret === "string" ? secret : Buffer.from(secret as Uint8Array))
  }

  update(data: string | Uint8Array) {
    this.#hash.update(data)
  }

  digest() {
    return Promise.resolve(new Uint8Array(this.#hash.digest()))
  }
}

/** Requests are valid for this time. */
const VALID_MILLIS = 5 * 60_000

/** The status of a request: 200, or 403 for any other signature than that of the account. */
export const statusOf = async (
  { bytes, headers, method, url }: Pick<Asked, "bytes" | "headers" | "method" | "url">,
  account: Account,
  { region, service }: { readonly region: string; readonly service: string }
): Promise<200 | 403> => {
  const date = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/u.exec(String(headers["x-amz-date"]))
  if (date === null) return 403
  const [, ...parts] = date.map(Number)
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts
  const signedAt = Date.UTC(year, month - 1, day, hour, minute, second)
  if (Math.abs(Date.now() - signedAt) > VALID_MILLIS || headers["x-amz-security-token"] !== account.sessionToken) return 403
  const address = new URL(url, `http://${headers.host}`)
  const { accessKeyId, secretAccessKey, sessionToken } = account
  const signer = new SignatureV4({
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    region,
    service,
    sha256: Sha256,
    applyChecksum: false
  })
  const signed = await signer.sign({
    method,
    protocol: "http:",
    hostname: address.hostname,
    path: address.pathname,
    query: Object.fromEntries(address.searchParams),
    headers: { host: String(headers.host) },
    body: bytes
  }, { signingDate: new Date(signedAt) })
  return signed.headers["authorization"] === headers.authorization ? 200 : 403
}

const codec = new EventStreamCodec((bytes) => Buffer.from(bytes as Uint8Array).toString("utf8"), (text) => Buffer.from(text, "utf8"))

const text = (value: string) => ({ type: "string" as const, value })

/** A frame with an event of the model. */
export const frame = (event: object): Buffer =>
  Buffer.from(codec.encode({
    headers: { ":event-type": text("chunk"), ":content-type": text("application/json"), ":message-type": text("event") },
    body: Buffer.from(JSON.stringify({ bytes: Buffer.from(JSON.stringify(event)).toString("base64"), p: "abcdefgh" }))
  }))

/** A frame that ends the stream with a failure. */
export const exception = (name: string, message: string): Buffer =>
  Buffer.from(codec.encode({
    headers: { ":exception-type": text(name), ":content-type": text("application/json"), ":message-type": text("exception") },
    body: Buffer.from(JSON.stringify({ message }))
  }))

/** The events of an answer with these tokens. */
export const events = (input: number, output: number, said = "Hello") => [
  {
    type: "message_start",
    message: { id: "msg_1", type: "message", role: "assistant", content: [], usage: { input_tokens: input, output_tokens: 1 } }
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: output } },
  { type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: input, outputTokenCount: output } }
]

export const STREAM = { "content-type": "application/vnd.amazon.eventstream" }
