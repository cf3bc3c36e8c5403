/**
 * Random secrets: keys, sessions, sign-in links. Only a SHA-256 digest of each is stored, which is safe for 256 random bits.
 */
import type * as Effect from "effect/Effect"
import type { Ids } from "../../ids/Ids.ts"

/** The digits of base62, in the order of their values. */
export const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** 62^43 > 2^256. */
const LENGTH = 43

/** 256 random bits in 43 characters of base62. */
export const draw = (ids: Pick<Ids["Service"], "random">): Effect.Effect<string> => ids.random(BASE62, LENGTH)
