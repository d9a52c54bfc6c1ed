"""An object store in one bucket of an S3 server, any that boto3 can speak to."""

import base64
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from portal.storage.store import (
    LINK_TTL_S,
    READ_BYTES,
    Link,
    ObjectMissingError,
    Readable,
    Store,
    StoreError,
    check_key,
    check_prefix,
)
from portal.storage.waiting import Waiting, remove_stale


class S3Store(Store):
    """Objects in one bucket of an S3 server. Credentials come from where boto3 looks for them."""

    def __init__(self, bucket: str, endpoint: str, region: str, pod_endpoint: str = "") -> None:
        self._bucket = bucket
        self._waiting_room = settings.HOMEPORT_HOME / "incoming"
        self._client = self._connect(endpoint, region)
        # Links are for pods, and a link's signature covers the host name in it.
        self._links = self._connect(pod_endpoint, region) if pod_endpoint else self._client

    @staticmethod
    def _connect(endpoint: str, region: str) -> Any:
        # Imported here: 60 MB and half a second that a folder store need not pay.
        import boto3
        from botocore.config import Config

        # Not boto3's default session: all would share the credentials that its first client found.
        return boto3.Session().client(
            "s3",
            endpoint_url=endpoint or None,
            region_name=region,
            config=Config(
                signature_version="s3v4",
                connect_timeout=5,
                read_timeout=30,
                retries={"max_attempts": 4, "mode": "standard"},
                # Servers other than Amazon's know no trailing checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"} if endpoint else {},
            ),
        )

    def put_file(self, key: str, file: Readable) -> None:
        self._client.upload_fileobj(file, self._bucket, check_key(key))

    def waiting(self) -> Waiting:
        return Waiting(self._waiting_room)

    def take(self, key: str, waiting: Waiting) -> None:
        waiting.flush()
        with waiting.path.open("rb") as file:
            self.put_file(key, file)
        waiting.abort()

    def remove_stale(self) -> None:
        """Removes what interrupted uploads left more than a day ago."""
        remove_stale(self._waiting_room)

    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        size = self.find_size(key)
        if size is None:
            raise ObjectMissingError(f"{key} is not in the object store")
        end = size if length is None else min(size, start + length)
        if start >= end:  # S3 answers an empty range with an error
            return iter(())
        answer = self._client.get_object(
            Bucket=self._bucket, Key=key, Range=f"bytes={start}-{end - 1}"
        )
        chunks: Iterator[bytes] = answer["Body"].iter_chunks(READ_BYTES)
        return chunks

    def find_size(self, key: str) -> int | None:
        from botocore.exceptions import ClientError

        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=check_key(key))
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                return None
            raise StoreError(f"the object store refused to look at {key}: {error}") from error
        return int(answer["ContentLength"])

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=check_key(key))

    def delete_prefix(self, prefix: str) -> None:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=check_prefix(prefix)
        )
        for page in pages:
            for item in page.get("Contents", ()):
                self._client.delete_object(Bucket=self._bucket, Key=item["Key"])

    def link_get(self, key: str, ttl_s: int = LINK_TTL_S) -> Link:
        url = self._links.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket, "Key": check_key(key)}, ExpiresIn=ttl_s
        )
        return Link(url, "GET")

    def link_put(
        self, key: str, size_bytes: int, ttl_s: int = LINK_TTL_S, *, sha256: str | None = None
    ) -> Link:
        # Both are signed headers: S3 refuses another length, and other bytes than announced.
        params: dict[str, Any] = {
            "Bucket": self._bucket,
            "Key": check_key(key),
            "ContentLength": size_bytes,
        }
        headers = {"Content-Length": str(size_bytes)}
        if sha256 is not None:
            checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
            params["ChecksumSHA256"] = checksum
            headers["x-amz-checksum-sha256"] = checksum
        url = self._links.generate_presigned_url("put_object", Params=params, ExpiresIn=ttl_s)
        return Link(url, "PUT", headers)
