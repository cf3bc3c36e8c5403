/**
 * Idempotent creation (docs/decisions/4). The key is stored in the transaction of its work, so there is no "in progress" state, and a
 * failed attempt leaves the key free.
 */
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Ids } from "../../ids/Ids.ts"
import type { IdempotencyKey } from "../schema/Idempotency.ts"

export type { IdempotencyKey } from "../schema/Idempotency.ts"

/** A key with the request that it is bound to. Equal fingerprints mean equal requests. */
export interface KeyedRequest {
  readonly key: IdempotencyKey
  /** SHA-256 of the canonical request in hex, after the version: `1:<hex>`. */
  readonly fingerprint: string
}

/** The key is bound to another request. Retrying cannot succeed. */
export class IdempotencyConflict extends Data.TaggedError("IdempotencyConflict") {
  override get message() {
    return "This Idempotency-Key was already used with a different request."
  }
}

/** The sandbox that the key made was deleted. Retrying cannot succeed. */
export class SandboxDeleted extends Data.TaggedError("SandboxDeleted") {
  override get message() {
    return "The sandbox that this Idempotency-Key created was deleted. Use another key."
  }
}

/** How long a key binds, its last moment included: 24 hours are promised, 30 days are kept (docs/decisions/4). */
export const RETENTION_DAYS = 30

type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/** `Array.isArray` with a type for readonly arrays. */
const isList = (value: Json): value is ReadonlyArray<Json> => Array.isArray(value)

/** JSON with the keys of every object in code unit order. Array order counts; strings are not normalised. */
export const canonicalJson = (value: Json): string => {
  if (isList(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`).join(",")}}`
}

/** Version 1: the decoded body with the interface's defaults. An omitted model stays omitted. */
export const fingerprint = (ids: Pick<Ids["Service"], "digest">, request: Json): string => `1:${ids.digest(canonicalJson(request))}`

/** The key bound to the request; `null` without a key. */
export const keyed = (ids: Pick<Ids["Service"], "digest">, key: Option.Option<IdempotencyKey>, request: Json): KeyedRequest | null =>
  Option.isNone(key) ? null : { key: key.value, fingerprint: fingerprint(ids, request) }

/** Whether the request equals the one with the fingerprint `bound`, to which its key is bound. Then it is a replay. */
export const resolve = (bound: string, request: KeyedRequest): Result.Result<"replay", IdempotencyConflict> =>
  bound === request.fingerprint ? Result.succeed("replay") : Result.fail(new IdempotencyConflict())
