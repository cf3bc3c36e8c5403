import { type Plants, plantsIn } from "./Plant.ts"

const isForgotten = "DateTime.isLessThanOrEqualTo(deviceLoginForgottenAt(other.login), login.createdAt)"
const tenMinutesAfter = (login: string) => `DateTime.add(${login}.createdAt, { minutes: 10 })`
const open = "user === userDigest && isOpen(login, now)"

export const plants: Plants = {
  port: "DeviceLoginStore",
  subject: "packages/testing/test/access/DeviceLoginStore.suites.ts",
  plants: plantsIn("packages/domain/memory/access/DeviceLoginStoreMemory.ts", [
    ["keeps a login for a moment longer than it is to be kept", isForgotten, isForgotten.replace("OrEqualTo", "")],
    ["forgets a login when it is over", isForgotten,
      isForgotten.replace("deviceLoginForgottenAt(other.login)", tenMinutesAfter("other.login"))],
    ["forgets the logins of others when one begins", `if (${isForgotten}) `, ""],
    ["lets one more of a network wait than may", "ofNetwork.length + 1 - most.ofNetwork", "ofNetwork.length - most.ofNetwork"],
    ["lets one more of all wait than may", "ofAll.length + 1 - most.ofAll", "ofAll.length - most.ofAll"],
    ["counts each address of a network by itself", "networkOf(other.login.address) === network", "other.login.address === login.address"],
    ["counts those without an address together", "network !== \"\" && ", ""],
    ["lets the newest give way", "DateTime.Order(a.login.createdAt, b.login.createdAt)",
      "DateTime.Order(b.login.createdAt, a.login.createdAt)"],
    ["lets the oldest of all give way, whatever its network has", "forgetOldest(ofFullest(ofAll),", "forgetOldest(ofAll,"],
    ["lets a decided login give way", ".filter(([, other]) => isOpen(other.login, login.createdAt))", ""],
    ["takes a user code that another login has", " || Array.from(logins.values()).some((other) => other.user === user)", ""],
    ["puts a login in the place of one with its device code", "logins.has(device) || ", ""],
    ["finds a login that is over", open, "user === userDigest && login.decision === null"],
    ["lets a decision be decided again", open, `user === userDigest && DateTime.isLessThan(now, ${tenMinutesAfter("login")})`],
    ["gives back the login as it was before the decision", "return found.login\n", "return { ...found.login, decision: null }\n"],
    ["does not tell of a decision", "yield* audit.append([decided(decision, found.login, at)])", ""],
    ["tells of a decision as if it was when the login began", "decided(decision, found.login, at)",
      "decided(decision, found.login, found.login.createdAt)"],
    ["forgets when it was asked last", "found.login = { ...found.login, pace }", ""],
    ["says of an unknown code that a person said no", "because: \"invalid_grant\"", "because: \"access_denied\""],
    ["makes a key of a login that was denied", "found?.login.decision?._tag !== \"Approved\"",
      "found === undefined || found.login.decision === null"],
    ["gives a key again", "logins.delete(deviceDigest)\n", "\n"],
    ["forgets a login whose key was refused", "Effect.tapError(() => Effect.sync(() => logins.set(deviceDigest, found)))",
      "(made) => made"],
    ["lets a user have any number of keys", "access.createKey(key, keyDigest, mostKeys)", "access.createKey(key, keyDigest, Infinity)"]
  ])
}
