import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { SecretName } from "../../src/environment/rules/Environment.ts"
import { VariableName } from "../../src/environment/schema/VariableName.ts"

const isSecret = Schema.is(SecretName)
const isVariable = Schema.is(VariableName)

describe("the name of a secret", () => {
  it("is one of capital letters, digits and _, with no digit first and 64 characters at most", () => {
    for (const name of ["NPM_TOKEN", "_", "A", "A1", "A".repeat(64)]) assert.isTrue(isSecret(name), name)
    for (const name of ["", "1A", "npm_token", "NPM-TOKEN", "NPM_TOKEN\n", "NPM TOKEN", "Ä", "A".repeat(65)]) {
      assert.isFalse(isSecret(name), name)
    }
  })

  it("is not a name that the service sets itself, in any case", () => {
    const some = "PATH HOME HOSTNAME TMPDIR LANG TERM HTTP_PROXY HTTPS_PROXY NO_PROXY"
    const others = "GATEWAY_TOKEN XAI_API_KEY IS_SANDBOX OFFLINE_AGENT DISABLE_AUTOUPDATER"
    const rest = "DISABLE_TELEMETRY DISABLE_ERROR_REPORTING NODE_OPTIONS BUN_OPTIONS BASH_ENV"
    const families = "SLIPWAY_ SANDBOX_ ANTHROPIC_ CLAUDE_ CODEX_ GROK_ OPENCODE_ LD_ XDG_"
    const members = families.split(" ").map((family) => `${family}X`)
    for (const name of [some, others, rest].flatMap((names) => names.split(" ")).concat(members)) {
      assert.isFalse(isSecret(name), name)
      assert.isFalse(isVariable(name), name)
      assert.isFalse(isVariable(name.toLowerCase()), name.toLowerCase())
    }
    for (const name of ["PATHS", "MY_HOME", "NODE_ENV", "LDFLAGS"]) assert.isTrue(isSecret(name), name)
  })

  it("of a variable may have small letters, and is else like that of a secret", () => {
    for (const name of ["npm_config_cache", "a", "_1", "a".repeat(64)]) assert.isTrue(isVariable(name), name)
    for (const name of ["", "1a", "a-b", "a b", "é", "a\n", "a".repeat(65)]) assert.isFalse(isVariable(name), name)
  })

  it.prop("is the name of a variable too", [SecretName], ([name]) => assert.isTrue(isVariable(name)))
})
