import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { noNamespaces } from "../../runner/Cable.ts"
import { absent, fixture, overCable } from "./Machines.fixture.ts"

const reason = absent("bubblewrap") ?? noNamespaces

if (reason === undefined) register(SandboxHostContract.suite("runners in another network namespace", overCable, fixture("bubblewrap")))
else it.skip(`SandboxHost (runners in another network namespace) (${reason})`)
