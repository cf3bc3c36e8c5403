import { type Plants, plantsIn } from "./Plant.ts"

const append = "yield* audit.append([ciTokenExchanged(trust, record)])\n"

export const plants: Plants = {
  port: "CiTrustStore",
  subject: "packages/testing/test/access/CiTrustStore.suites.ts",
  plants: plantsIn("packages/domain/memory/access/CiTrustStoreMemory.ts", [
    ["lets a grant have one more than it may", "ofGrant.length >= most", "ofGrant.length > most"],
    ["counts the trusts of other grants", ".filter(({ grantId }) => grantId === trust.grantId)", ""],
    ["adds a trust to a revoked grant", "if (!(yield* isInUse(trust.grantId))) return", "if (trust.grantId === \"\") return"],
    ["does not tell of a new trust", "yield* audit.append([ciTrustChanged(\"ci_trust.added\", trust, trust.createdAt)])\n", "\n"],
    ["lists the trusts of all issuers", "issuer === null || trust.issuer === issuer", "trust.issuer !== \"\""],
    ["lists the newest first", "DateTime.Order(a.createdAt, b.createdAt)", "DateTime.Order(b.createdAt, a.createdAt)"],
    ["removes nothing", "trusts.delete(id)\n", "\n"],
    ["does not tell of a removal", "yield* audit.append([ciTrustChanged(\"ci_trust.removed\", trust, at)])\n", "\n"],
    ["tells of a removal as if it was when the trust was added", "\"ci_trust.removed\", trust, at)",
      "\"ci_trust.removed\", trust, trust.createdAt)"],
    ["makes a key of a revoked grant", "trust === undefined || !(yield* isInUse(trust.grantId))", "trust === undefined"],
    ["does not tell of an exchange", append, "\n"],
    ["lets a user have any number of keys", "access.createKey(key, keyDigest, mostKeys)", "access.createKey(key, keyDigest, Infinity)"]
  ])
}
