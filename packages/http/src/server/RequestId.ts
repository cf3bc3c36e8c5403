import { ulidUnsafe } from "effect/crypto/SecureRandom"

/** Without a fiber, because a flood of refusals has to cost little. Ids of one process are ordered. */
export const newRequestId = (): string => `req_${ulidUnsafe()}`
