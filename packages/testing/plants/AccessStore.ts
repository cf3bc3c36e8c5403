import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "AccessStore",
  subject: "packages/testing/test/access/AccessStore.suites.ts",
  plants: plantsIn("packages/domain/memory/access/AccessStoreMemory.ts", [
    ["admits a key in the very instant it expires", "DateTime.isLessThanOrEqualTo(key.record.expiresAt",
      "DateTime.isLessThan(key.record.expiresAt"],
    ["admits the keys of a revoked grant", " || grant.revokedAt !== null) return null", ") return null"],
    ["takes somebody who was a member once for an active one", "member?.active === true", "member !== undefined"],
    ["calls the keys of former members good", "found.memberActive && ", ""],
    ["calls the keys of a suspended organization good", " && !found.organizationSuspended", ""],
    ["takes keys that are live for those of tests", "prefix === \"sbx_test_\"", "prefix === \"sbx_live_\""],
    ["takes a slot of the limits that have room from a request that another one refuses", "if (accepted) acceptedAt.push(now)",
      "if (acceptedAt.length < most) acceptedAt.push(now)"],
    ["has room a moment later than 60 s after an acceptance", "acceptedAt[0]! <= now", "acceptedAt[0]! < now"],
    ["counts a user's requests by grant", "windowOf(ofUsers, userId)", "windowOf(ofUsers, userId + grantId)"],
    ["counts a grant's requests by user", "windowOf(ofGrants, grantId)", "windowOf(ofGrants, userId + grantId)"],
    ["tells of the limit that has the most left", "slot.remaining < tightest.remaining", "slot.remaining > tightest.remaining"],
    ["rounds the seconds down until there is room", "Math.ceil(", "Math.floor("],
    ["forgets that a lowered limit waits for more than one to run out", "Math.max(0, acceptedAt.length - most)", "0"],
    ["gives back the revoked grant of a name", "name === grant.name && revokedAt === null", "name === grant.name"],
    ["lists grants oldest first", "newestFirst(grants.values())", "newestFirst(grants.values()).toReversed()"],
    ["revokes a revoked grant by its name", "name === idOrName && revokedAt === null", "name === idOrName"],
    ["moves the time at which a grant was revoked", "grant.revokedAt ?? at", "at"],
    ["tells the audit log of a grant's revocation twice", "if (grant.revokedAt === null) yield*", "yield*"],
    ["moves the time at which a key was revoked", "key.record.revokedAt ?? at", "at"],
    ["lists the keys of all grants for one", "grantId === null || key.grantId === grantId", "true"],
    ["lets a user have one key more", "good.length >= most", "good.length > most"],
    ["lets a user have so many keys in each grant", "userId === key.userId && revoked",
      "userId === key.userId && grantId === key.grantId && revoked"],
    ["counts the keys of revoked grants", " && grants.get(grantId)?.revokedAt === null", ""],
    ["counts a key that expires as the new one is made", "DateTime.isGreaterThan(expiresAt", "DateTime.isGreaterThanOrEqualTo(expiresAt"],
    ["mints keys that the audit log does not know", "yield* audit.append([minted(record)])", ""],
    ["tells the audit log that the service used a key first", "Effect.provideService(Acting, { _tag: \"Key\", keyId: id })",
      "(told) => told"]
  ])
}
