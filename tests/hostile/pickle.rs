//! Files in PyTorch's format: a zip archive with a pickle and the bytes of the tensors, which may contradict each other.

/// What the pickle says about a tensor. The archive has 64 floats for it.
pub struct Tensor {
    /// Number of elements of its storage.
    pub elements: i64,
    pub shape: &'static [i64],
    pub stride: &'static [i64],
    pub offset: i64,
}

/// A file with a dictionary of tensors.
pub fn file(tensors: &[(&str, Tensor)]) -> Vec<u8> {
    let mut pickle = vec![0x80, 2, b'}', b'(']; // protocol 2, an empty dictionary, a mark
    for (number, (name, tensor)) in tensors.iter().enumerate() {
        text(&mut pickle, name);
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut pickle, "storage");
        pickle.extend(b"ctorch\nFloatStorage\n");
        text(&mut pickle, &number.to_string());
        text(&mut pickle, "cpu");
        integer(&mut pickle, tensor.elements);
        pickle.extend(b"tQ"); // a tuple, a persistent reference
        integer(&mut pickle, tensor.offset);
        for list in [tensor.shape, tensor.stride] {
            pickle.push(b'(');
            list.iter().for_each(|size| integer(&mut pickle, *size));
            pickle.push(b't');
        }
        pickle.extend(b"\x89ccollections\nOrderedDict\n)RtR"); // no gradient, no hooks, call
    }
    pickle.extend(b"u."); // set the items, stop
    let names: Vec<String> = (0..tensors.len())
        .map(|n| format!("archive/data/{n}"))
        .collect();
    let data = vec![0u8; 64 * 4];
    let entries: Vec<(&str, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), &data[..]))
        .collect();
    archive(&pickle, &entries)
}

fn text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(b'X');
    pickle.extend((text.len() as u32).to_le_bytes());
    pickle.extend(text.as_bytes());
}

fn integer(pickle: &mut Vec<u8>, value: i64) {
    match i32::try_from(value) {
        Ok(value) => {
            pickle.push(b'J');
            pickle.extend(value.to_le_bytes());
        }
        Err(_) => {
            pickle.extend([0x8a, 8]);
            pickle.extend(value.to_le_bytes());
        }
    }
}

/// A zip archive without compression of a pickle and further files.
pub fn archive(pickle: &[u8], entries: &[(&str, &[u8])]) -> Vec<u8> {
    let fixed: [(&str, &[u8]); 3] = [
        ("archive/data.pkl", pickle),
        ("archive/byteorder", b"little"),
        ("archive/version", b"3\n"),
    ];
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    let all: Vec<&(&str, &[u8])> = fixed.iter().chain(entries).collect();
    for (name, content) in &all {
        let start = files.len() as u32;
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let size = (content.len() as u32).to_le_bytes();
        // Version 2.0, no flags, stored, no time; the checksum, both sizes, the lengths of the name and of extra fields.
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        about.extend(crc.sum().to_le_bytes());
        about.extend(size);
        about.extend(size);
        about.extend((name.len() as u16).to_le_bytes());
        about.extend([0, 0]);
        files.extend(b"PK\x03\x04");
        files.extend(&about);
        files.extend(name.as_bytes());
        files.extend(*content);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&about);
        directory.extend([0; 10]); // no comment, first disk, no attributes
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (files.len() as u32, (all.len() as u16).to_le_bytes());
    let length = (directory.len() as u32).to_le_bytes();
    files.extend(directory);
    files.extend(b"PK\x05\x06\0\0\0\0");
    files.extend(count);
    files.extend(count);
    files.extend(length);
    files.extend(start.to_le_bytes());
    files.extend([0, 0]);
    files
}
