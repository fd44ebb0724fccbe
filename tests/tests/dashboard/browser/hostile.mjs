// Texts full of markup, quotes, templates and addresses of scripts are shown as text, on every screen.

import assert from 'node:assert/strict';
import { instance, shown, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  const { hostile } = stage.world;
  const { texts } = hostile;
  const screens = [
    ['#/', [hostile.failed, hostile.name, texts.error]],
    ['#/instances', [hostile.waiting, hostile.name, texts.status, texts['tag-value'], hostile.address]],
    [`#/instances?prefix=${encodeURIComponent('id<script>')}`, [hostile.waiting]],
    [instance(hostile.waiting), [hostile.waiting, hostile.name, texts.status, texts['tag-value'], texts.input, texts.activity, texts.event]],
    [instance(hostile.waiting, 'events'), [texts.activity, texts.event]],
    [instance(hostile.waiting, 'tree'), [texts.child]],
    [instance(hostile.waiting, 'keys'), [texts.key, texts.value]],
    [instance(hostile.waiting, 'executions'), [hostile.waiting]],
    [instance(hostile.failed), [hostile.failed, texts.error, hostile.address]],
    ['#/dead-letters', [hostile.givenUp, texts.activity, texts.reason]],
    [`#/start?name=${encodeURIComponent(hostile.name)}&id=${encodeURIComponent(hostile.waiting)}`, []],
  ];
  const page = await stage.open();
  for (const [hash, expected] of screens) {
    await page.goto(`${stage.world.api}/${hash}`);
    await page.reload();
    for (const text of expected) await until(`${hash} shows ${text}`, () => visibly(page, text));
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wider <= 0, `${hash} is ${wider} px too wide`);
    await harmless(page, hash);
  }

  // The dead letter itself, and the dialog of a raise that takes the hostile name.
  await page.goto(`${stage.world.api}/#/dead-letters?instance=${encodeURIComponent(hostile.givenUp)}`);
  await page.getByRole('link', { name: 'Activity given up' }).click();
  await until('the dead letter shows its reason', () => visibly(page, texts.reason));
  await harmless(page, 'a dead letter');
  await page.goto(`${stage.world.api}/${instance(hostile.waiting)}`);
  await page.getByRole('button', { name: /^Send event/ }).first().click();
  await page.getByRole('dialog').waitFor();
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), texts.event);
  await page.getByRole('dialog').getByLabel('Data').fill(JSON.stringify(texts.input));
  await page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true }).click();
  await until('it has ended', async () => (await page.locator('.badge').first().innerText()).includes('Completed'));
  await harmless(page, 'the end');
  // The events with their payloads opened.
  await page.goto(`${stage.world.api}/${instance(hostile.waiting, 'events')}`);
  await until('events are shown', () => visibly(page, texts.activity));
  await page.evaluate(() => { for (const one of document.querySelectorAll('main [aria-expanded=false]')) one.click(); });
  await until('results are shown', async () => (await shown(page)).includes('result<script>'));
  await harmless(page, 'events');
}

/** Whether a person sees the text: in the page, or as the value of a field. Line ends and spaces may differ, and lists may shorten it. */
async function visibly(page, text) {
  await page.evaluate(() => { for (const part of document.querySelectorAll('main details')) part.open = true; });
  const plain = (value) => value.replaceAll(/\s+/g, ' ').replaceAll('\\"', '"');
  return plain(await shown(page)).includes(plain(text));
}

/** Nothing ran, nothing became an element, and no link leads to a script. */
async function harmless(page, where) {
  const found = await page.evaluate(() => ({
    hacked: globalThis.hacked ?? null,
    elements: document.querySelectorAll('main script, main img, header script, dialog script').length,
    links: [...document.querySelectorAll('[href], [src], [action]')].map((one) => one.getAttribute('href') ?? one.getAttribute('src') ?? '').filter((address) => /^\s*javascript:/i.test(address)),
    handlers: [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name }) => name.startsWith('on'))).length,
  }));
  assert.deepEqual(found, { hacked: null, elements: 0, links: [], handlers: 0 }, where);
}
