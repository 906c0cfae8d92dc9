// SPDX-License-Identifier: MIT
import dibs from "./test.cjs";

export const { client, env, fixtures, listen, playwrightFixtures, port, ports, webServer } = dibs;
