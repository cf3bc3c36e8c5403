import { suite } from "@slipway/testing/contracts/source/FollowedRepositoriesContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as FollowedRepositoriesPostgres from "../src/followed-repositories/FollowedRepositoriesPostgres.ts"
import { database } from "./Stores.ts"

register(suite("postgres", FollowedRepositoriesPostgres.layer.pipe(Layer.provide(database()))))
