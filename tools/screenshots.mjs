// The part of tools/screenshots.sh that drives Chromium: screenshots.mjs FOLDER
import { createRequire } from "node:module";
import { argv, env } from "node:process";

const { chromium } = createRequire(`${env.DIBS_TEST_NPM}/`)("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC" });
const page = await context.newPage();
const shot = async (name, part = page) => {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(700);
  await part.screenshot({ path: `${argv[2]}/ui-${name}.png` });
};
const choose = async words => {
  await page.locator("#query").fill(words);
  await page.keyboard.press("Enter");
  await page.waitForTimeout(500);
  await page.locator("#query").fill("");
};

await page.goto(env.DIBS_URL);
await page.locator("#state.live").waitFor();
await choose("shop@main web");
await page.getByRole("button", { name: "Pool default" }).click();
await shot("light");

await page.emulateMedia({ colorScheme: "dark" });
await choose("20700");
await page.getByRole("button", { name: "All", exact: true }).click();
await shot("dark");

await choose("shop@main web");
await page.locator("#map").focus();
for (let i = 0; i < 22; i++)
  await page.keyboard.press("+");
for (let i = 0; i < 3; i++)
  await page.getByRole("button", { name: "To the event before" }).click();
await shot("past", page.locator("#view"));
await page.getByRole("button", { name: "Now" }).click();

await page.emulateMedia({ colorScheme: "light" });
await page.setViewportSize({ width: 360, height: 720 });
for (const tab of ["Claims", "Map", "Port"]) {
  await page.getByRole("button", { name: tab, exact: true }).click();
  if (tab === "Map")
    await page.getByRole("button", { name: "Pool default" }).click();
  await shot(`phone-${tab.toLowerCase()}`);
}
await browser.close();
