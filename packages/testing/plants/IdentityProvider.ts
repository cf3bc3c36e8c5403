import { type Plants, plantsIn } from "./Plant.ts"

const drawn = "Effect.all([draw(ids), draw(ids), draw(ids)])"
const detail = "The sign-in is unknown, used or another browser's. Begin again."

export const plants: Plants = {
  port: "IdentityProvider",
  subject: "packages/testing/test/access/IdentityProvider.suites.ts",
  plants: plantsIn("packages/domain/memory/access/IdentityProviderMemory.ts", [
    ["has no name", "name: \"Memory\"", "name: \"\""],
    ["draws short secrets", drawn, "Effect.all([draw(ids), ids.random(\"abc\", 12), draw(ids)])"],
    ["proves every sign-in by the same secret", drawn, "Effect.all([draw(ids), draw(ids), Effect.succeed(\"v\".repeat(43))])"],
    ["has one secret for state and verifier", drawn,
      "Effect.map(Effect.all([draw(ids), draw(ids)]), ([code, both]) => [code, both, both])"],
    ["shows the verifier on the way", "&state=${state}`", "&state=${state}&verifier=${verifier}`"],
    ["comes back without the state", "&state=${state}", ""],
    ["comes back elsewhere", "`${redirectUri}?code", "`${new URL(redirectUri).origin}/?code"],
    ["takes a code twice", "begun.delete(code)", ""],
    ["takes a code from any browser", "known?.verifier !== Redacted.value(verifier) ||", "known === undefined ||"],
    ["takes a code that was never given", "known?.verifier !== Redacted.value(verifier) || known.redirectUri",
      "known !== undefined && known.redirectUri"],
    ["tells the code when it refuses", detail, "Unknown: \" + code + \""],
    ["tells the verifier when it refuses", detail, "Unknown: \" + Redacted.value(verifier) + \""],
    ["says nothing when it refuses", detail, ""],
    ["tells the login for the name", "return person", "return { ...person, name: person.login }"],
    ["tells an address that the profile does not show", "return person", "return { ...person, email: `${person.login}@example.com` }"]
  ])
}
