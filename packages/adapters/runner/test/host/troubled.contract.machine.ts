import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, fixture, overTroubledCable } from "../../testing/Machines.fixture.ts"
import { noTrouble } from "../../testing/TroubledCable.ts"

const reason = absent("bubblewrap") ?? noTrouble

const name = "runners over a link that loses, delays, doubles and reorders packets"

if (reason === undefined) register(SandboxHostContract.suite(name, overTroubledCable, fixture("bubblewrap")))
else it.skip(`SandboxHost (${name}) (${reason})`)
