/** Makes the request for the provider from an agent's bytes. Pure: runs on the main thread or on another one. */
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { isObject, only } from "../protocols/JsonFields.ts"
import { protocols } from "../protocols/Protocol.ts"
import type { AgentHeaders } from "../providers/Destination.ts"
import { destinationOf } from "../providers/Destinations.ts"
import * as Addresses from "./Addresses.ts"
import { type Input, inputBound } from "./InputBound.ts"

export interface Prepared {
  readonly body: Uint8Array
  readonly streaming: boolean
  /** The most tokens of the request. */
  readonly input: Input
  /** The most tokens of the answer. */
  readonly outputTokens: number
}

/** A refused request, because its provider would fetch something for the agent. */
export interface Fetching {
  /** The field with the address. */
  readonly field: string
}

/** `Fetching` only if addresses are refused. */
export type AddressRule = "refuse" | "allow"

/** Values in one request. A million tokens with a hundred thousand messages have fewer. */
const MAXIMUM_VALUES = 250_000

/** Levels of nesting in one request. Schemas of tools have about twenty. */
const MAXIMUM_DEPTH = 256

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE, END_BRACKET, END_BRACE] = Buffer.from("\"\\,[{]}")

/** Checks before parsing: 32 MiB of `{},` take seconds and a gigabyte. Deeply nested JSON can be parsed but not written. */
const isTooMuch = (bytes: Uint8Array): boolean => {
  let values = 0
  let depth = 0
  let inText = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === QUOTE) inText = !inText
    else if (inText) {
      if (byte === BACKSLASH) i++
    } else if (byte === END_BRACKET || byte === END_BRACE) depth--
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) {
      if (++values > MAXIMUM_VALUES || byte !== COMMA && ++depth > MAXIMUM_DEPTH) return true
    }
  }
  return false
}

/** A request of an agent. */
export interface Asked {
  readonly bytes: Uint8Array
  readonly upstream: Upstream
  /** Whether its path costs nothing. */
  readonly free: boolean
  /** Its headers that the protocol allows. */
  readonly headers: AgentHeaders
}

/** `null`: not a JSON object, or too large to parse and write. */
export const prepare = ({ bytes, free, headers, upstream }: Asked, addresses: AddressRule): Prepared | Fetching | null => {
  if (isTooMuch(bytes)) return null
  const protocol = protocols[upstream.protocol]
  try {
    const asked: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"))
    if (!isObject(asked)) return null
    const { body: whole, outputTokens } = protocol.prepare(asked, upstream)
    const json = free ? only(whole, protocol.freeFields) : whole
    const contents = ["messages", "input", "system", "instructions"].map((name) => json[name])
    const field = addresses === "allow" ? null : Addresses.find(contents)
    if (field !== null) return { field }
    const body = Buffer.from(JSON.stringify(destinationOf(upstream).body(json, headers, free)))
    return { body, streaming: json["stream"] === true, input: inputBound(contents, body.length, upstream.contextTokens), outputTokens }
  } catch {
    return null
  }
}
