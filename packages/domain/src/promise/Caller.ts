/** The caller of the promise form. */
import type { Principal, Right } from "../access/schema/Principal.ts"

/**
 * The caller: results are limited to this grant. The embedder has authorized it, for example by `access.admit`, whose `principal` is a
 * caller. `test`: only models that need no account.
 */
export type Caller =
  & Pick<Principal, "grantId" | "organizationId" | "userId">
  & Partial<Pick<Principal, "credential" | "test">>
  & { readonly scopes?: Iterable<Right> | undefined }

/** The principal of a caller, with defaults. */
export const principalOf = ({ scopes, ...by }: Caller): Principal => ({
  credential: { _tag: "Key", keyId: "embedded" },
  test: false,
  ...by,
  scopes: new Set(scopes)
})
